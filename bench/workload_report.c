/* SPDX-License-Identifier: MIT */
/* What a workload prints at its end, for people and for programs. */
#include "workload_internal.h"

#include <inttypes.h>
#include <math.h>

/* Below a million operations, first use of memory shows; from ten million on it no longer does. */
static const char *state(uint64_t operations) {
	return operations < 1000000 ? "cold" : operations < 10000000 ? "warm" : "steady";
}

static double divide(double a, double b) {
	return b > 0 ? a / b : 0;
}

/* What the workload got done while it was waited for, all its threads together. */
static double per_second(const struct measures *m) {
	return divide((double)m->operations, m->wall);
}

/* What an operation takes of a CPU, however many threads shared the work. */
static double ns_each(const struct measures *m) {
	return divide(m->cpu * 1e9, (double)m->operations);
}

static void print_arguments(const struct parameter *p, const char *before) {
	for (; p != NULL && p->name != NULL; p++)
		printf(" %s%s=%" PRIu64, before, p->name, p->value);
}

static void print_allocator(const struct proof *proof) {
	printf("  allocator     %s (%s)", proof->name, proof->object);
	if (!proof->can_own) {
		putchar('\n');
		return;
	}
	printf("; owns %u of %u blocks shown; by its counters %zu KiB mapped, %zu live\n",
		proof->owned, proof->shown, proof->mapped >> 10, proof->live >> 10);
}

void report_text(const struct measures *m, const struct proof *proof) {
	printf("%s", workload_self->name);
	print_arguments(workload_self->parameters, "");
	print_arguments(workload_self->options, "--");
	printf("\n%s\n", workload_self->summary);
	printf("  operations    %" PRIu64 " (%s)\n", m->operations, state(m->operations));
	printf("  wall time     %.3f s\n  CPU time      %.3f s\n", m->wall, m->cpu);
	printf("  speed         %.0f operations/s of wall time, %.2f ns of CPU time each\n", per_second(m),
		ns_each(m));
	printf("  memory        peak %zu KiB, at the end %zu KiB\n", m->peak >> 10, m->end >> 10);
	for (unsigned i = 0; i < m->figure_count; i++)
		printf("  %-28s  %.6g %s\n", m->figures[i].name, m->figures[i].value, m->figures[i].unit);
	for (unsigned i = 0; i < m->sample_count; i++) {
		const struct sample *s = &m->samples[i];
		printf("  %-28s  resident %zu KiB, live %zu KiB, ratio %.3f\n", s->label, s->resident >> 10,
			s->live >> 10, s->ratio);
	}
	print_allocator(proof);
}

static void json_string(const char *text) {
	putchar('"');
	for (; *text != 0; text++) {
		unsigned char c = (unsigned char)*text;
		if (c < 0x20)
			printf("\\u%04x", c);
		else if (c == '"' || c == '\\')
			printf("\\%c", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void json_number(const char *key, double value) {
	if (isfinite(value))
		printf("\"%s\":%.9g", key, value);
	else
		printf("\"%s\":null", key);
}

static void json_arguments(const struct parameter *p, const char **separatorp) {
	for (; p != NULL && p->name != NULL; p++) {
		printf("%s\"%s\":%" PRIu64, *separatorp, p->name, p->value);
		*separatorp = ",";
	}
}

static void json_figures(const struct measures *m) {
	printf(",\"figures\":{");
	for (unsigned i = 0; i < m->figure_count; i++) {
		if (i > 0)
			putchar(',');
		json_string(m->figures[i].name);
		printf(":{");
		json_number("value", m->figures[i].value);
		printf(",\"unit\":");
		json_string(m->figures[i].unit);
		putchar('}');
	}
	printf("},\"series\":[");
	for (unsigned i = 0; i < m->sample_count; i++) {
		const struct sample *s = &m->samples[i];
		printf("%s{\"label\":", i > 0 ? "," : "");
		json_string(s->label);
		printf(",\"resident\":%zu,\"live\":%zu,", s->resident, s->live);
		json_number("ratio", s->ratio);
		putchar('}');
	}
	putchar(']');
}

static void json_allocator(const struct proof *proof) {
	printf(",\"allocator\":{\"object\":");
	json_string(proof->object);
	printf(",\"served\":%s,\"name\":\"%s\"", proof->served ? "true" : "false", proof->name);
	if (proof->can_own)
		printf(",\"blocks_shown\":%u,\"blocks_owned\":%u,\"mapped\":%zu,\"live\":%zu", proof->shown,
			proof->owned, proof->mapped, proof->live);
	putchar('}');
}

void report_json(const struct measures *m, const struct proof *proof) {
	const char *separator = "";
	printf("{\"workload\":\"%s\",\"arguments\":{", workload_self->name);
	json_arguments(workload_self->parameters, &separator);
	json_arguments(workload_self->options, &separator);
	printf("},\"state\":\"%s\",\"operations\":%" PRIu64 ",", state(m->operations), m->operations);
	json_number("seconds", m->wall);
	putchar(',');
	json_number("cpu_seconds", m->cpu);
	putchar(',');
	json_number("ops_per_second", per_second(m));
	putchar(',');
	json_number("ns_per_operation", ns_each(m));
	printf(",\"peak_rss_kib\":%zu,\"end_rss_kib\":%zu", m->peak >> 10, m->end >> 10);
	json_figures(m);
	json_allocator(proof);
	puts("}");
}
