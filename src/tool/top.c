/* SPDX-License-Identifier: MIT */
/* `hakmem top`: all processes that use HAKMEM, the largest first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tool/commands.h"
#include "tool/each.h"
#include "tool/process.h"
#include "tool/screen.h"

struct row {
	pid_t pid;
	char name[64];
	uint64_t rss, committed, live, idle, unused;
	uint64_t worst; /* size of the class that has the most idle and unused bytes; 0: none */
	uint64_t worst_bytes;
	uint64_t heaps;
};

struct rows {
	size_t count, denied;
	struct row row[]; /* room for every process */
};

enum order { BY_MEMORY, BY_WASTE };
static enum order order;

static uint64_t waste_of(const struct row *r) {
	return r->idle + r->unused;
}

static int compare(const void *a, const void *b) {
	const struct row *x = a, *y = b;
	uint64_t vx = order == BY_WASTE ? waste_of(x) : x->rss, vy = order == BY_WASTE ? waste_of(y) : y->rss;
	return vx < vy ? 1 : vx > vy ? -1 : (x->pid > y->pid) - (x->pid < y->pid);
}

static void find_worst(struct row *r, const struct hak_stats *st) {
	for (size_t sc = 1; sc < st->classes; sc++) {
		const struct hak_stats_class *c = &st->by_class[sc];
		uint64_t waste = (c->cached + c->free) * c->size + c->unused;
		if (waste > r->worst_bytes) {
			r->worst_bytes = waste;
			r->worst = c->size;
		}
	}
}

static void add(void *arg, pid_t pid) {
	struct rows *rows = arg;
	struct process p;
	struct hak_stats st;
	enum tool_exit why = process_open(&p, pid);
	rows->denied += why == TOOL_NO_PERMISSION;
	if (why != TOOL_OK || process_stats(&p, &st) != TOOL_OK || st.committed + st.live == 0)
		return; /* the last: the library is there, but another allocator serves */
	struct row *r = &rows->row[rows->count];
	*r = (struct row){ .pid = pid, .rss = p.resident, .committed = st.committed, .live = st.live,
	                   .idle = st.cached + st.slab_free + st.mosaic_free + st.dirty + st.bigcache,
	                   .unused = st.unused, .heaps = st.threads };
	find_worst(r, &st);
	memcpy(r->name, p.name, sizeof r->name);
	rows->count++; /* last: it may go no further */
}

/* How much of what the heap holds is not with the program, in percent. */
static unsigned idle_percent(const struct row *r) {
	uint64_t all = r->live + r->idle;
	return all != 0 ? (unsigned)(waste_of(r) * 100 / (all > waste_of(r) ? all : waste_of(r))) : 0;
}

static const char *colour(bool on, unsigned percent) {
	return !on ? "" : percent >= 50 ? "\033[31m" : percent >= 25 ? "\033[33m" : "\033[32m";
}

/* Of the column with the name: what 80 columns leave, and on a wide terminal all of it. */
static int name_width(void) {
	enum { LEAST = 13, MOST = 15 }; /* the system keeps no more */
	unsigned rows, columns;
	screen_size(&rows, &columns);
	return columns <= 80 ? LEAST : columns - 80 > MOST - LEAST ? MOST : (int)columns - 80 + LEAST;
}

/* In few columns without what all of them do, and cut off at the last. */
static void print_totals(const struct rows *rows) {
	uint64_t rss = 0, live = 0, waste = 0;
	for (size_t i = 0; i < rows->count; i++) {
		rss += rows->row[i].rss;
		live += rows->row[i].live;
		waste += waste_of(&rows->row[i]);
	}
	bool one = rows->count == 1;
	char unreadable[40] = "", text[200];
	unsigned lines, columns;
	screen_size(&lines, &columns);
	if (rows->denied != 0)
		snprintf(unreadable, sizeof unreadable, "; %zu unreadable", rows->denied);
	for (int is_short = 0; is_short < 2; is_short++) {
		const char *use = is_short ? "" : one ? " uses HAKMEM" : " use HAKMEM";
		int len = snprintf(text, sizeof text, "%zu process%s%s: %s resident, %s live, %s wasted%s", rows->count,
		                   one ? "" : "es", use, amount_of(rss).text, amount_of(live).text, amount_of(waste).text,
		                   unreadable);
		if (len <= (int)columns)
			break;
	}
	printf("%.*s\n", (int)columns, text);
}

/* As much as `columns` show; what sets colours takes none. */
static void print_cut(const char *text, size_t columns) {
	for (; *text != '\0'; text++) {
		size_t escape = *text == '\033' ? strcspn(text, "m") : 0;
		if (escape != 0 || columns > 0)
			fwrite(text, 1, escape + 1, stdout);
		columns -= escape == 0 && columns > 0;
		text += escape;
	}
	putchar('\n');
}

static void print_head(const struct rows *rows, size_t columns, bool colours) {
	char text[160];
	print_totals(rows);
	snprintf(text, sizeof text, "%s%7s %-*s %5s %6s %5s %5s %6s %5s %5s  %s%s", colours ? "\033[1m" : "", "PID",
	         name_width(), "PROGRAM", "RSS", "MAPPED", "LIVE", "IDLE", "UNUSED", "WASTE", "HEAPS", "WORST", colours ? "\033[0m" : "");
	print_cut(text, columns);
}

static void print_row(const struct row *r, size_t columns, bool colours) {
	char worst[40] = "-", text[240];
	int width = name_width();
	if (r->worst != 0)
		snprintf(worst, sizeof worst, "%llu (%s)", (unsigned long long)r->worst, amount_of(r->worst_bytes).text);
	snprintf(text, sizeof text, "%7d %-*.*s %5s %6s %5s %5s %6s %s%4u%%%s %5llu  %s", (int)r->pid, width, width,
	         r->name, amount_of(r->rss).text, amount_of(r->committed).text, amount_of(r->live).text,
	         amount_of(r->idle).text, amount_of(r->unused).text, colour(colours, idle_percent(r)),
	         idle_percent(r), colours ? "\033[0m" : "", (unsigned long long)r->heaps, worst);
	print_cut(text, columns);
}

/* False, after a complaint: processes cannot be found. */
static bool print_once(bool clear) {
	enum { ABOVE = 3 }; /* lines: the totals, the head, the cursor's */
	struct each each;
	bool colours = screen_has_colour();
	unsigned lines, columns;
	screen_size(&lines, &columns);
	if (!each_begin(&each))
		return false;
	size_t size = sizeof(struct rows) + each.count * sizeof(struct row);
	struct rows *rows = each_shared(size);
	if (rows == NULL) {
		complain("%s", strerror(ENOMEM));
		return false;
	}
	each_visit(&each, add, rows);
	rows->denied += each.stuck;
	each_end(&each);
	qsort(rows->row, rows->count, sizeof *rows->row, compare);
	if (clear)
		screen_begin();
	size_t most = !clear ? SIZE_MAX : lines > ABOVE ? lines - ABOVE : 1, width = clear ? columns : SIZE_MAX;
	print_head(rows, width, colours);
	for (size_t i = 0; i < rows->count && i < most; i++)
		print_row(&rows->row[i], width, colours);
	munmap(rows, size);
	return true;
}

static int run(int argc, char **argv) {
	double every = 2;
	long times = screen_is_terminal() ? 0 : 1;
	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : "";
		if (strcmp(argv[i], "--waste") == 0)
			order = BY_WASTE;
		else if (strcmp(argv[i], "--once") == 0)
			times = 1;
		else if (strcmp(argv[i], "--watch") != 0)
			return misused("top: what is '%s'?", argv[i]);
		else if (!parse_seconds("top", next, &every))
			return TOOL_USAGE;
		else
			times = 0, i++;
	}
	do {
		if (!print_once(screen_is_terminal() && times != 1))
			return TOOL_FAILED;
	} while (times != 1 && screen_wait(every));
	return TOOL_OK;
}

const struct command command_top = {
	.name = "top",
	.summary = "all processes that use HAKMEM, the largest first",
	.usage = "usage: hakmem top [--waste] [--once | --watch SECONDS]\n"
	         "\n"
	         "  --waste           sorted by waste, not by resident memory\n"
	         "  --once            not again and again; so it is, too, when piped\n"
	         "  --watch SECONDS   how often; 2 if not said\n"
	         "\n"
	         "RSS: resident memory of the process. MAPPED: by HAKMEM. LIVE: blocks that the program has.\n"
	         "IDLE: free blocks and free memory kept. UNUSED: bytes of live blocks that were not asked for, an\n"
	         "estimate. WASTE: idle and unused, of live and idle. HEAPS: with a thread. WORST: the block size\n"
	         "with the most idle and unused, and how much.\n",
	.run = run,
};
