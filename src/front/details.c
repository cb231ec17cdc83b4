/* SPDX-License-Identifier: MIT */
#include "front/details.h"

#include "base/report.h"
#include "front/guard.h"
#include "front/large.h"
#include "front/misuse.h"
#include "front/nursery.h"
#include "front/quarantine.h"
#include "front/secure.h"
#include "os/os.h"

static void begin(struct line *l, uintptr_t block, size_t size, const char *what) {
	line_begin(l);
	line_add(l, "  %p is a block of %zu bytes %s", (void *)block, size, what);
}

static void add_thread(struct line *l, const char *before, const struct heap *h) {
	if (h == NULL || h->thread == 0)
		return;
	line_add(l, "%s%zu", before, (size_t)h->thread);
}

static void add_age(struct line *l, uint64_t ms) {
	line_add(l, " %zu ms ago", (size_t)ms);
}

/* ---- blocks in slabs ---- */

/* Cycles are told apart from ms only roughly. */
static void add_quarantine(struct line *l, uintptr_t block) {
	const struct heap *by;
	uint64_t cycles;
	if (!quarantine_find(block, &by, &cycles))
		return;
	line_str(l, ", in quarantine, freed about");
	add_age(l, cycles / (OS_CYCLES_A_MOMENT / 20));
	add_thread(l, " by thread ", by);
}

static void write_small(const struct slab *s, uintptr_t addr) {
	uintptr_t block = misuse_block_around(s, addr);
	if (block == 0)
		return;
	struct line l;
	begin(&l, block, secure_usable_size(s, block), "in a class of ");
	line_add(&l, "%zu, in a slab at %p", (size_t)hak_size_classes[slab_class_at(s, block)].size, (void *)s->base);
	struct inbox *owner = atomic_load_explicit(&s->owner, memory_order_acquire);
	/* Whose blocks it has: the thread that had this one may be another, and gone. */
	add_thread(&l, " of thread ", owner != NULL ? LIST_ENTRY(owner, struct heap, inbox) : NULL);
	add_quarantine(&l, block);
	line_write_plain(&l);
}

/* ---- others ---- */

static void write_large(const struct large *l, uintptr_t addr) {
	struct line line;
	bool live = atomic_load_explicit(&l->state, memory_order_acquire) == LARGE_LIVE;
	begin(&line, (uintptr_t)l->span.base, l->size, "on pages of its own, ");
	line_str(&line, live ? "in use" : "freed");
	line_write_plain(&line);
}

static void write_event(const char *what, const struct guard_event *event) {
	struct line l;
	line_begin(&l);
	line_add(&l, "  %s by thread %zu", what, (size_t)event->thread);
	add_age(&l, os_now_ms() - event->ms);
	line_str(&l, event->stack.count != 0 ? ", at" : "");
	line_write_plain(&l);
	trace_write(&event->stack);
}

static void write_guarded(const struct guarded *g) {
	struct line l;
	if (g->made.thread == 0)
		return;
	begin(&l, g->ptr, g->size, "between guard pages");
	line_write_plain(&l);
	write_event("allocated", &g->made);
	if (g->kind == KIND_FREED)
		write_event("freed", &g->freed);
}

static void write_nursery(uintptr_t addr) {
	uintptr_t block;
	unsigned sc;
	struct line l;
	enum nursery_state state = nursery_find_around(addr, &block, &sc);
	if (state == NURSERY_UNUSED)
		return;
	begin(&l, block, hak_size_classes[sc].size, "among the process's first, ");
	line_str(&l, state == NURSERY_FREED ? "freed" : "in use");
	line_write_plain(&l);
}

/* Memory that holds nothing: the tag says what was there last. */
static void write_former(struct pagemap_entry e, uintptr_t addr) {
	if (e.tag != TAG_FREE && e.tag != TAG_LARGE_FREED && e.tag != TAG_LARGE_GONE)
		return;
	struct line l;
	line_begin(&l);
	line_add(&l, "  %p is in no block; the last one here had %zu bytes", (void *)addr, (size_t)e.desc);
	line_write_plain(&l);
}

void details_write(uintptr_t addr) {
	struct pagemap_entry e = pagemap_find(addr);
	struct trace here;
	if (tag_is_slab(e.tag))
		write_small(e.desc, addr);
	else if (e.tag == TAG_LARGE)
		write_large(e.desc, addr);
	else if (e.tag == TAG_GUARDED)
		write_guarded(e.desc);
	else if (e.tag == TAG_NURSERY)
		write_nursery(addr);
	else
		write_former(e, addr);
	struct line l;
	line_begin(&l);
	line_add(&l, "  found by thread %zu, at", (size_t)os_thread_id());
	line_write_plain(&l);
	trace_capture(&here, misuse_caller());
	trace_write(&here);
}
