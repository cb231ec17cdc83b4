/* SPDX-License-Identifier: MIT */
/*
 * All processes there are, each looked into though some want us to look for ever: reading memory waits for who
 * provides it, which can be the process itself (FUSE, userfaultfd) or a server that is gone, and no signal ends that.
 * So a child of ours does it, and where it stands still it is left behind, and another goes on with the next.
 */
#ifndef HAK_TOOL_EACH_H
#define HAK_TOOL_EACH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct each {
	pid_t *pid;
	size_t count;
	size_t stuck;     /* of them: passed over */
};

/* Lists them. False, after a complaint: they cannot be seen. */
bool each_begin(struct each *e);

/* Memory, all zero, that stays what the child makes of it. NULL: there is none. */
void *each_shared(size_t size);

/* Calls `visit` for each in a child. What that prints is printed; what else it is to leave goes to shared memory. */
void each_visit(struct each *e, void (*visit)(void *arg, pid_t pid), void *arg);

void each_end(struct each *e);

#endif
