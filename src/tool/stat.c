/* SPDX-License-Identifier: MIT */
/* `hakmem stat`: the statistics of running processes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "observe/write.h"
#include "tool/commands.h"
#include "tool/each.h"
#include "tool/process.h"
#include "tool/screen.h"

struct wish {
	pid_t pid;
	bool all, threads;
	enum hak_stats_format format;
	double watch; /* seconds; 0: once */
	struct shown *shown;
};

/* What has become of it. */
struct shown {
	size_t count; /* processes */
	struct source {
		struct hak_stats stats;
		char labels[192];
	} source[]; /* as many, if they are to be written together, with room for all */
};

static void put(void *arg, const char *text, size_t length) {
	fwrite(text, 1, length, stdout);
}

static void print_json_heap(void *arg, const struct reading_heap *h) {
	write_json_heap(h, put, NULL);
}

/* If the process ends meanwhile, the heaps that were read are there. */
static enum tool_exit print_json(const struct process *p, const struct hak_stats *st) {
	struct reading_heap heap;
	printf("{\"pid\":%d,\"program\":\"", (int)p->pid);
	for (const char *c = p->name; *c != '\0'; c++)
		printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	printf("\",\"version\":\"%s\",\"rss\":%llu,\"rss_peak\":%llu,\"stats\":", p->reading.version,
	       (unsigned long long)p->resident, (unsigned long long)p->resident_peak);
	write_json_open(st, put, NULL);
	enum tool_exit why = process_why(p, reading_heaps(&p->reading, &heap, print_json_heap, NULL));
	write_json_close(put, NULL);
	puts("}");
	return why == TOOL_NO_PROCESS ? TOOL_OK : why;
}

/* ---- by thread ---- */

static void print_heap(void *arg, const struct reading_heap *h) {
	write_text_heap(h, put, NULL);
}

static enum tool_exit show_threads(const struct process *p) {
	struct reading_heap heap;
	printf("%s[%d], HAKMEM %s: what each heap has cached, where its blocks came from and went\n", p->name,
	       (int)p->pid, p->reading.version);
	write_text_heaps(put, NULL);
	return process_why(p, reading_heaps(&p->reading, &heap, print_heap, NULL));
}

/* ---- metrics of several processes, which are written together ---- */

static void add_source(struct shown *shown, const struct process *p, const struct hak_stats *st) {
	struct source *s = &shown->source[shown->count];
	s->stats = *st;
	int n = snprintf(s->labels, sizeof s->labels, "pid=\"%d\",program=\"", (int)p->pid);
	for (const char *c = p->name; *c != '\0'; c++)
		n += sprintf(s->labels + n, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	strcpy(s->labels + n, "\"");
}

static void print_sources(const struct shown *shown) {
	struct metric_source *sources = calloc(shown->count, sizeof *sources);
	for (size_t i = 0; sources != NULL && i < shown->count; i++)
		sources[i] = (struct metric_source){ &shown->source[i].stats, shown->source[i].labels };
	if (sources != NULL)
		write_openmetrics(sources, shown->count, put, NULL);
	free(sources);
}

/* ---- in all ---- */

static enum tool_exit print_stats(const struct process *p, const struct hak_stats *st, enum hak_stats_format format) {
	if (format == HAK_STATS_JSON)
		return print_json(p, st);
	struct reading_setting disable;
	if (format == HAK_STATS_TEXT)
		printf("%s[%d], HAKMEM %s, %s resident in all, at most %s\n", p->name, (int)p->pid, p->reading.version,
		       amount_of(p->resident).text, amount_of(p->resident_peak).text);
	if (format == HAK_STATS_TEXT && process_setting(p, "disable", &disable) == TOOL_OK &&
	    strcmp(disable.value, "1") == 0)
		puts("disable = 1: libc's allocator serves it");
	hak_stats_write(st, format, put, NULL);
	return TOOL_OK;
}

static enum tool_exit show(struct wish *w, pid_t pid) {
	struct process p;
	struct hak_stats st;
	enum tool_exit why = process_open(&p, pid);
	if (why == TOOL_OK && !w->threads)
		why = process_stats(&p, &st);
	if (why == TOOL_OK && w->threads)
		why = show_threads(&p);
	else if (why == TOOL_OK && w->all && w->format == HAK_STATS_OPENMETRICS)
		add_source(w->shown, &p, &st);
	else if (why == TOOL_OK)
		why = print_stats(&p, &st, w->format);
	if (why != TOOL_OK && !w->all)
		process_complain(&p, why);
	return why;
}

static void show_one_of_all(void *arg, pid_t pid) {
	struct wish *w = arg;
	if (show(w, pid) == TOOL_OK)
		w->shown->count++;
}

static enum tool_exit show_all(struct wish *w) {
	struct each each;
	if (!each_begin(&each))
		return TOOL_FAILED;
	size_t size = sizeof *w->shown + each.count * sizeof *w->shown->source;
	w->shown = each_shared(size);
	if (w->shown == NULL) {
		complain("%s", strerror(ENOMEM));
		return TOOL_FAILED;
	}
	each_visit(&each, show_one_of_all, w);
	each_end(&each);
	bool any = w->shown->count != 0;
	if (any && w->format == HAK_STATS_OPENMETRICS)
		print_sources(w->shown);
	munmap(w->shown, size);
	if (any)
		return TOOL_OK;
	complain("no process that may be read uses HAKMEM");
	return TOOL_NO_HAKMEM;
}

static bool parse(struct wish *w, int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--all") == 0) {
			w->all = true;
		} else if (strcmp(argv[i], "--threads") == 0) {
			w->threads = true;
		} else if (strcmp(argv[i], "--json") == 0) {
			w->format = HAK_STATS_JSON;
		} else if (strcmp(argv[i], "--openmetrics") == 0) {
			w->format = HAK_STATS_OPENMETRICS;
		} else if (strcmp(argv[i], "--watch") == 0) {
			if (!parse_seconds("stat", i + 1 < argc ? argv[i + 1] : "", &w->watch))
				return false;
			i++;
		} else if (w->pid != 0 || !process_parse("stat", argv[i], &w->pid)) {
			return w->pid != 0 ? misused("stat: one process at a time") == TOOL_OK : false;
		}
	}
	if (w->all == (w->pid != 0))
		return misused("stat: which process? Either an id or --all") == TOOL_OK;
	if (w->threads && w->format != HAK_STATS_TEXT)
		return misused("stat: --threads is a table, neither --json nor --openmetrics") == TOOL_OK;
	return true;
}

static int run(int argc, char **argv) {
	struct wish w = { .format = HAK_STATS_TEXT };
	if (!parse(&w, argc, argv))
		return TOOL_USAGE;
	enum tool_exit why;
	do {
		if (w.watch > 0 && w.format == HAK_STATS_TEXT)
			screen_begin();
		why = w.all ? show_all(&w) : show(&w, w.pid);
	} while (why == TOOL_OK && w.watch > 0 && screen_wait(w.watch));
	return why;
}

const struct command command_stat = {
	.name = "stat",
	.summary = "statistics of a running process",
	.usage = "usage: hakmem stat PID | --all [--json | --openmetrics | --threads] [--watch SECONDS]\n"
	         "\n"
	         "Reads a process that uses HAKMEM from its memory, without stopping it. Nothing needs to\n"
	         "be switched on in it.\n"
	         "\n"
	         "  --all             every process that may be read\n"
	         "  --json            a JSON object per process, in a line, heap by heap too\n"
	         "  --openmetrics     as Prometheus and its like read it\n"
	         "  --threads         a line per heap, of which each thread has one: bytes cached, requests that\n"
	         "                    found no cached block, from where caches were filled, and of freed blocks\n"
	         "                    those beyond a full cache, home in their slabs, freed for other threads and\n"
	         "                    by them\n"
	         "  --watch SECONDS   again and again\n",
	.run = run,
};
