/* SPDX-License-Identifier: MIT */
#include "front/guard.h"

#include <string.h>

#include "base/bits.h"
#include "front/alloc.h"
#include "front/canary.h"
#include "front/misuse.h"
#include "front/secure.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/meta.h"

enum { SLOTS_AT_ONCE = 16, BETWEEN_TRIES = 1000 /* ms */ };

static struct {
	struct lock lock;
	struct queue unused;
	struct guarded *all; /* read without the lock: it only ever grows at the front */
	unsigned made;
	uint64_t refused_ms; /* when the system gave no more, by os_now_ms; 0: it did */
} slots;

struct lock *guard_lock(void) {
	return &slots.lock;
}

void guard_reset(void) {
	slots.unused = (struct queue){ 0 };
}

const struct guarded *guard_slots(void) {
	/* Acquire: the slot's constant fields. */
	return __atomic_load_n(&slots.all, __ATOMIC_ACQUIRE);
}

/* ---- slots ---- */

bool guard_fits(size_t size, size_t align) {
	size_t page = os_facts.page_size;
	return align <= page && align_up(size, page) + 2 * page <= GRANULE;
}

static void make_slots_locked(void) {
	size_t n = min_size(SLOTS_AT_ONCE, GUARD_SLOTS - slots.made), bytes = n * GRANULE;
	if (n == 0 || (slots.refused_ms != 0 && os_now_ms() - slots.refused_ms < BETWEEN_TRIES))
		return;
	slots.refused_ms = os_now_ms(); /* until it is known better */
	char *p = os_map_aligned(bytes, GRANULE);
	if (p == NULL)
		return;
	if (!pagemap_cover((uintptr_t)p, n) || !os_protect(p, bytes, false)) {
		os_unmap(p, bytes);
		return;
	}
	for (char *end = p + bytes; p < end; p += GRANULE) {
		struct guarded *g = meta_alloc(sizeof *g);
		if (g == NULL) {
			os_unmap(p, (size_t)(end - p));
			return;
		}
		g->base = g->ptr = (uintptr_t)p;
		g->next = slots.all;
		__atomic_store_n(&slots.all, g, __ATOMIC_RELEASE);
		pagemap_set((uintptr_t)p, 1, TAG_GUARDED, g);
		queue_append(&slots.unused, &g->link);
		slots.made++;
	}
	slots.refused_ms = 0;
}

static struct guarded *take_slot(void) {
	lock_acquire(&slots.lock);
	if (slots.unused.first == NULL)
		make_slots_locked();
	struct queue_node *n = slots.unused.first;
	if (n != NULL)
		queue_remove(&slots.unused, n);
	lock_release(&slots.lock);
	struct guarded *g = n == NULL ? NULL : (void *)((char *)n - offsetof(struct guarded, link));
	return g == NULL || g->is_breached ? NULL : g;
}

static void put_slot(struct guarded *g) {
	lock_acquire(&slots.lock);
	queue_append(&slots.unused, &g->link);
	lock_release(&slots.lock);
}

/* The pages of the block that the slot held last begin here. */
static uintptr_t pages_of(const struct guarded *g) {
	return g->base + os_facts.page_size;
}

/* ---- blocks ---- */

static struct guard_event event_now(const struct trace *stack) {
	return (struct guard_event){ .thread = os_thread_id(), .ms = os_now_ms(), .stack = *stack };
}

/* A pad is written nearest to the block first: before it, too. */
static uintptr_t front_pad(const struct guarded *g, size_t *lengthp) {
	*lengthp = min_size(g->ptr - pages_of(g), PAD_MOST);
	return g->ptr - *lengthp;
}

static size_t back_pad(const struct guarded *g) {
	return pages_of(g) + g->bytes - (g->ptr + g->size);
}

static void place(struct guarded *g, size_t size, size_t align, bool at_front) {
	size_t length;
	uintptr_t end = pages_of(g) + g->bytes;
	g->ptr = at_front ? pages_of(g) : align_down(end - size, align);
	if (g->ptr == end)
		g->ptr -= align; /* of no bytes */
	uintptr_t front = front_pad(g, &length);
	pad_fill(front, length);
	pad_fill(g->ptr + size, back_pad(g));
}

void *guard_alloc(struct heap *h, size_t size, size_t align) {
	uint64_t rate = hak_settings.guard_rate;
	h->until_guard = (int64_t)(1 + secure_random(h) % (2 * rate - 1)); /* `rate` in the mean */
	if (!guard_fits(size, align))
		return NULL;
	struct guarded *g = take_slot();
	if (g == NULL)
		return NULL;
	g->size = size;
	g->bytes = align_up(size, os_facts.page_size);
	if (!os_protect((void *)pages_of(g), g->bytes, true)) {
		put_slot(g);
		return NULL;
	}
	place(g, size, align, (secure_random(h) & 1) != 0);
	struct trace stack;
	trace_capture(&stack, h->caller);
	g->made = event_now(&stack);
	/* Release: who frees it sees the rest. */
	__atomic_store_n(&g->kind, (uint8_t)KIND_MALLOC, __ATOMIC_RELEASE);
	return (void *)g->ptr;
}

void guard_set_kind(struct guarded *g, unsigned kind) {
	g->kind = (uint8_t)kind;
}

enum wrong { NOTHING, WRITTEN_BEHIND, WRITTEN_BEFORE, OTHER_KIND };

/* What is wrong with freeing the block, which is live. */
HAK_NOINLINE static enum wrong look(const struct guarded *g, unsigned kind, unsigned is) {
	size_t length;
	uintptr_t front = front_pad(g, &length);
	if (!pad_holds(g->ptr + g->size, back_pad(g)))
		return WRITTEN_BEHIND;
	if (!pad_holds(front, length))
		return WRITTEN_BEFORE;
	return misuse_is_other_kind(kind, is) ? OTHER_KIND : NOTHING;
}

static void report(const struct guarded *g, enum wrong wrong, unsigned kind, unsigned is) {
	if (wrong == OTHER_KIND)
		misuse_kinds(g->ptr, g->size, kind, is);
	else
		misuse_written(wrong == WRITTEN_BEHIND ? MISUSE_BEHIND : MISUSE_BEFORE, g->ptr, g->size);
}

void guard_free(struct guarded *g, uintptr_t addr, unsigned kind) {
	uint8_t is = __atomic_load_n(&g->kind, __ATOMIC_ACQUIRE);
	if (addr != g->ptr || is == KIND_FREED) {
		misuse_check_guarded(OP_FREE, g, addr);
		return;
	}
	/* Of two frees one wins; the other does not look at the pages, which go. */
	if (!__atomic_compare_exchange_n(&g->kind, &is, (uint8_t)KIND_FREED, false, __ATOMIC_ACQ_REL,
	                                 __ATOMIC_ACQUIRE)) {
		misuse_freed(OP_FREE, addr, g->size);
		return;
	}
	enum wrong wrong = look(g, kind, is);
	if (wrong != NOTHING) {
		__atomic_store_n(&g->kind, is, __ATOMIC_RELEASE); /* it stays; the report is of a live block */
		report(g, wrong, kind, is);
		return;
	}
	struct trace stack;
	trace_capture(&stack, misuse_caller());
	g->freed = event_now(&stack);
	void *pages = (void *)pages_of(g);
	/* The pages must read zero when they are used next; those that stay accessible are of no use. */
	if (!os_purge(pages, g->bytes)) /* locked into memory, say */
		memset(pages, 0, g->bytes);
	if (os_protect(pages, g->bytes, false) && !g->is_breached)
		put_slot(g);
}

bool guard_check(const struct guarded *g) {
	enum wrong wrong = look(g, KIND_FREED, g->kind);
	if (wrong != NOTHING)
		report(g, wrong, KIND_FREED, g->kind);
	return wrong == NOTHING;
}

bool guard_shrink(struct guarded *g, size_t size, bool wasteful) {
	if (wasteful ? size > g->size : !size_fits_well(g->size, size))
		return false;
	g->size = size;
	pad_fill(g->ptr + size, back_pad(g));
	return true;
}
