/* SPDX-License-Identifier: MIT */
/* Processes that use HAKMEM: finding them, and reading them without stopping them. */
#ifndef HAK_TOOL_PROCESS_H
#define HAK_TOOL_PROCESS_H

#include <sys/types.h>

#include "observe/reading.h"
#include "tool/tool.h"

struct process {
	pid_t pid;
	pid_t thread;      /* by whose number its memory is found: where main's thread has ended, not by `pid` */
	char name[64];     /* of the program; "?" if it is not known */
	uint64_t resident, resident_peak; /* bytes, as the system counts: all of the process */
	uint64_t reads;    /* of memory, and of lines about it, that may follow: a process that wants to can give us lists
	                      without end */
	struct reading reading;
	struct reading_room room;
};

/* Finds HAKMEM in the process and learns how to read it. TOOL_OK, or why not. */
enum tool_exit process_open(struct process *p, pid_t pid);

/* What a result of reading an opened process means. */
enum tool_exit process_why(const struct process *p, enum reading_result result);

/* The statistics of an opened process. */
enum tool_exit process_stats(struct process *p, struct hak_stats *stats);

/* Why reading_setting gave nothing at `row`. TOOL_OK: behind the last. */
enum tool_exit process_settings_why(const struct process *p, unsigned row);

/* The value of a setting in an opened process; its name is "" if it has no such setting. */
enum tool_exit process_setting(const struct process *p, const char *name, struct reading_setting *setting);

/* One line about what process_open or process_stats answered. Returns the answer. */
enum tool_exit process_complain(const struct process *p, enum tool_exit why);

/* A file of the process's folder in /proc, or NULL. */
FILE *process_file(const struct process *p, const char *file);

/* The number behind `key` in the status of a process, or of a thread; 0: there is none. */
uint64_t process_status(pid_t pid, const char *key, int base);

/* The number that stands for a process. False, after a complaint: it is none. */
bool process_parse(const char *command, const char *text, pid_t *pidp);

/* Counts readings of memory as they begin, for who watches whether they end; NULL: nobody does. */
extern volatile uint64_t *process_beats;

#endif
