/* SPDX-License-Identifier: MIT */
#include "front/misuse.h"

#include <stdlib.h>

#include "base/bits.h"
#include "base/probe.h"
#include "base/report.h"
#include "base/settings.h"
#include "front/background.h"
#include "front/bins.h"
#include "front/details.h"
#include "front/guard.h"
#include "front/heap.h"
#include "front/large.h"
#include "front/nursery.h"
#include "front/secure.h"
#include "front/tcache.h"
#include "os/elf.h"
#include "os/os.h"
#include "slab/mosaic.h"

static const char *const op_names[] = { "free", "realloc", "malloc_usable_size" };

/* ---- reports ---- */

enum { REPORTS_MOST = 100 }; /* lines, if the program goes on after them */

static struct {
	_Atomic int thread; /* that is reporting; 0: none */
	unsigned said;      /* that thread's */
	bool has_details;   /* were written; likewise */
} reports;

const void *misuse_caller(void) {
	return hak_tcache.heap != NULL ? hak_tcache.heap->caller : NULL;
}

bool misuse_begin_report(void) {
	uint64_t started = os_now_ms();
	int none = 0, thread = os_thread_id();
	/* Acquire and release: what the reporting thread alone touches. */
	while (!atomic_compare_exchange_strong_explicit(&reports.thread, &none, thread, memory_order_acquire,
	                                                memory_order_relaxed)) {
		if (none == thread || os_now_ms() - started > 1000)
			return false;
		none = 0;
		os_pause();
	}
	return true;
}

void misuse_end_report(void) {
	atomic_store_explicit(&reports.thread, 0, memory_order_release);
}

/* Are there operators unseen (has_operators_unseen)? There may be, where that is not to be found. Threads that ask at
   once find the same. */
static enum { NOT_FOUND, FOUND, NOT_TO_BE_FOUND } operators;

void misuse_after_fork(bool threads_are_gone) {
	/* One of them may have had the loader's locks. */
	if (threads_are_gone && operators == NOT_FOUND && (hak_settings.secure != 0 || hak_settings.guard_rate != 0))
		operators = NOT_TO_BE_FOUND;
	/* Else the page stays shared: fork.c's set_flag. */
	if (atomic_load_explicit(&reports.thread, memory_order_relaxed) == 0 && reports.said == 0)
		return;
	reports.said = 0; /* a child says what it has to say, whatever its parent did */
	reports.has_details = false;
	misuse_end_report();
}

/* Ends the line and, unless told otherwise, the process. False. */
HAK_COLD static bool finish(struct line *l, enum misuse_op op, uintptr_t addr) {
	HAK_PROBE2(misuse, op, addr);
	if (hak_settings.on_error == ERROR_IGNORE)
		return false;
	/* The purge thread finds what was written to blocks on their way. It has no memory that is a thread's own, which
	   details and abort need, nor may a handler of the program run in it. */
	bool aside = background_is_this(), is_first = misuse_begin_report();
	if (is_first && ++reports.said <= REPORTS_MOST)
		line_write(l);
	if (is_first && !aside && !reports.has_details && details_are_told()) {
		reports.has_details = true;
		details_write(addr);
	}
	/* Before abort: a handler of SIGABRT may leave it by siglongjmp, and what is found next is to be said, too. */
	if (is_first)
		misuse_end_report();
	if (hak_settings.on_error != ERROR_ABORT)
		return false;
	if (!aside)
		abort();
	os_abort_process();
	return false;
}

static void line_block(struct line *l, uintptr_t block, size_t size) {
	line_add(l, "%p (%zu-byte block)", (void *)block, size);
}

bool misuse_freed(enum misuse_op op, uintptr_t addr, size_t size) {
	struct line l;
	line_begin(&l);
	if (op == OP_FREE)
		line_str(&l, "double free of ");
	else
		line_add(&l, "%s of freed block ", op_names[op]);
	line_block(&l, addr, size);
	return finish(&l, op, addr);
}

HAK_COLD static bool interior(enum misuse_op op, uintptr_t addr, uintptr_t block, size_t size) {
	struct line l;
	line_begin(&l);
	line_add(&l, "%s of interior pointer %p (%zu-byte block at %p)", op_names[op], (void *)addr, size, (void *)block);
	return finish(&l, op, addr);
}

bool misuse_invalid(enum misuse_op op, uintptr_t addr) {
	struct pagemap_entry e = pagemap_find(addr);
	if (e.tag == TAG_LARGE_GONE && addr % GRANULE == 0)
		return misuse_freed(op, addr, (size_t)e.desc);
	struct line l;
	line_begin(&l);
	line_add(&l, "%s of invalid pointer %p", op_names[op], (void *)addr);
	return finish(&l, op, addr);
}

bool misuse_written(enum misuse_where where, uintptr_t block, size_t size) {
	struct line l;
	line_begin(&l);
	line_str(&l, where == MISUSE_BEHIND ? "write behind " :
	             where == MISUSE_BEFORE ? "write before " : "write after free to ");
	line_block(&l, block, size);
	return finish(&l, OP_ACCESS, block);
}

bool misuse_end(unsigned sc) {
	struct line l;
	line_begin(&l);
	line_str(&l, "write after free to a ");
	if (sc != 0)
		line_add(&l, "%zu-byte ", (size_t)hak_size_classes[sc].size);
	line_str(&l, "block");
	return finish(&l, OP_ACCESS, 0);
}

HAK_EVERYDAY bool misuse_check_end(unsigned sc, uintptr_t end) {
	return link_is_our_end(end) || misuse_end(sc);
}

bool misuse_touched(enum misuse_where where, uintptr_t addr, uintptr_t block, size_t size) {
	struct line l;
	line_begin(&l);
	line_add(&l, "access to %p", (void *)addr);
	if (where == MISUSE_BETWEEN) {
		line_str(&l, " between slabs");
		return finish(&l, OP_ACCESS, addr);
	}
	line_str(&l, where == MISUSE_BEHIND ? " behind " : where == MISUSE_BEFORE ? " before " : " after free of ");
	line_block(&l, block, size);
	return finish(&l, OP_ACCESS, addr);
}

static bool other_defines(const char *name) {
	return elf_find_elsewhere(name, "libstdc++.so\0libc++\0") != NULL;
}

/* A library may have the C++ run time inside, and call its own new and delete, which go by malloc and free, where others
   call ours: then blocks that pass between them are of both kinds. So they are in a program that replaces but one of the
   two. The run time's own libraries call ours. */
HAK_GUESS static bool has_operators_unseen(void) {
	if (operators == NOT_FOUND && (other_defines("_ZdlPv") || other_defines("_Znw" CXX_SIZE_T)))
		operators = FOUND; /* for good: a library that goes leaves blocks */
	return operators != NOT_FOUND;
}

bool misuse_is_other_kind(unsigned by, unsigned made) {
	if (by == made || by == KIND_FREED)
		return false;
	return (by != KIND_MALLOC && made != KIND_MALLOC) || !has_operators_unseen();
}

bool misuse_kinds(uintptr_t block, size_t size, unsigned by, unsigned made) {
	static const char by_names[][12] = { "", "free", "delete", "delete[]" };
	static const char made_names[][12] = { "", "malloc", "new", "new[]" };
	struct line l;
	line_begin(&l);
	line_add(&l, "%s of %p (%zu-byte block) made by %s", by_names[by], (void *)block, size, made_names[made]);
	return finish(&l, OP_FREE, block);
}

bool misuse_wrong(uintptr_t block, size_t size, const char *what, size_t value) {
	struct line l;
	line_begin(&l);
	line_add(&l, "free of %p (%zu-byte block) with %s %zu", (void *)block, size, what, value);
	return finish(&l, OP_FREE, block);
}

/* ---- is a block on a free list? ---- */

/* The slab that a decoded link leads to, or NULL. */
static const struct slab *link_target(uintptr_t decoded) {
	struct pagemap_entry e = pagemap_lookup_steady(decoded);
	return tag_is_slab(e.tag) ? e.desc : NULL;
}

/* Could the block's first word have been written by us? */
static bool has_plausible_link(uintptr_t block) {
	if (bin_is_untouched((const void *)block))
		return true;
	uintptr_t next = link_decode(block_link(block));
	const struct slab *target = link_target(next);
	/* The end may be that of a slab that is deleted. */
	return link_is_our_end(next) || (target != NULL && slab_has_block(target, next));
}

/* Walks a list that other threads may be changing: a wrong turn ends the walk, nothing worse. */
static bool list_contains(uintptr_t link, uintptr_t block) {
	for (unsigned steps = 0; steps < 1u << 16; steps++) {
		uintptr_t at = link_decode(link);
		if (at == block)
			return true;
		if (link_is_end(at))
			return false;
		const struct slab *s = link_target(at);
		if (s == NULL || !slab_has_block(s, at))
			return false;
		link = block_link(at);
	}
	return false;
}

static bool outbox_contains(const struct outbox *o, const struct slab *s, uintptr_t block) {
	for (unsigned i = 0; i < OUTBOX_SLOTS; i++)
		if (o->slot[i].slab == s && list_contains(link_encode(o->slot[i].batch.first), block))
			return true;
	const struct message *m;
	for (unsigned i = 0; (m = outbox_message(o, i)) != NULL; i++)
		if (!message_is_free(m) && message_has(m, block))
			return true;
	return false;
}

/*
 * Every place a free block can be: its slab's two lists, any bin of its class, any outbox, any message. Looking
 * at other threads' is a race, and reading the bins of a thread that exits this moment may even
 * fault; but we only come here with a block whose first word is a link, which a correct program has
 * only by copying uninitialised memory. For that program's sake a link alone is no proof.
 */
bool misuse_block_is_free(const struct slab *s, uintptr_t block) {
	unsigned sc = slab_class_at(s, block);
	if (!has_plausible_link(block))
		return false;
	if (list_contains(s->free, block))
		return true;
	uintptr_t remote = remote_first(atomic_load_explicit(&s->remote, memory_order_acquire));
	if (remote != 0 && list_contains(link_encode(remote), block))
		return true;
	for (const struct heap *h = heap_registry(); h != NULL; h = h->next)
		if (bin_contains(h, sc, block) || outbox_contains(&h->outbox, s, block) ||
		    (h->classes[sc].listed != 0 && list_contains(h->classes[sc].list, block)))
			return true;
	return false;
}

/* ---- checks ---- */

uintptr_t misuse_block_around(const struct slab *s, uintptr_t addr) {
	uintptr_t off = addr - s->base;
	const struct mosaic *m = slab_mosaic(s);
	if (m != NULL) {
		uintptr_t begin = mosaic_block_at(m, off);
		return begin < GRANULE ? s->base + begin : 0;
	}
	uint32_t index = sc_index(s->sc, off);
	bool carved = index < __atomic_load_n(&s->carved, __ATOMIC_RELAXED) && index >= slab_reserved(s);
	return carved ? addr - off % s->block_size : 0;
}

/* What was unmapped left word in its first granule only. */
uintptr_t misuse_gone_block(uintptr_t addr, size_t *sizep) {
	uintptr_t at = align_down(addr, GRANULE);
	for (unsigned i = 0; i < LEAF_GRANULES && at >= GRANULE; i++, at -= GRANULE) {
		struct pagemap_entry e = pagemap_find(at);
		*sizep = (size_t)e.desc;
		if (e.tag != TAG_NONE)
			return e.tag == TAG_LARGE_GONE && addr - at < *sizep ? at : 0;
	}
	return 0;
}

/* The class of the block that `addr` was before a mosaic took it back; 0: it was none. */
static unsigned class_of_hole(const struct slab *s, uintptr_t addr) {
	const struct mosaic *m = slab_mosaic(s);
	return m != NULL ? mosaic_freed_at(m, addr - s->base) : 0;
}

/* The class of the block that `addr` was before its slab became a spare, which has forgotten its blocks; 0: it was none. */
static unsigned class_in_spare(const struct slab *s, uintptr_t addr) {
	uint32_t index = sc_index(s->sc, addr - s->base);
	bool is_spare = slab_mosaic(s) == NULL && __atomic_load_n(&s->carved, __ATOMIC_RELAXED) == 0 && !s->fresh_is_zero;
	return is_spare && index < s->capacity && s->base + (uintptr_t)index * s->block_size == addr ? s->sc : 0;
}

bool misuse_suspect(enum misuse_op op, const struct slab *s, uintptr_t addr) {
	uintptr_t block = misuse_block_around(s, addr);
	unsigned sc = block == 0 ? class_of_hole(s, addr) | class_in_spare(s, addr) : 0;
	if (sc != 0)
		return misuse_freed(op, addr, hak_size_classes[sc].size);
	if (block == 0)
		return misuse_invalid(op, addr);
	if (block != addr)
		return interior(op, addr, block, secure_usable_size(s, block));
	if (misuse_block_is_free(s, addr))
		return misuse_freed(op, addr, secure_usable_size(s, block));
	return true;
}

HAK_EVERYDAY bool misuse_check_nursery(enum misuse_op op, uintptr_t addr, size_t *sizep) {
	uintptr_t block;
	unsigned sc;
	enum nursery_state state = nursery_find(addr, &block, &sc);
	if (state == NURSERY_UNUSED)
		return misuse_invalid(op, addr);
	*sizep = hak_size_classes[sc].size;
	if (state == NURSERY_INSIDE)
		return interior(op, addr, block, *sizep);
	if (state == NURSERY_FREED)
		return misuse_freed(op, addr, *sizep);
	return true;
}

bool misuse_check_guarded(enum misuse_op op, const struct guarded *g, uintptr_t addr) {
	bool live = __atomic_load_n(&g->kind, __ATOMIC_ACQUIRE) != KIND_FREED;
	if (live && addr == g->ptr)
		return true;
	if (!live && addr == g->ptr && g->made.thread != 0)
		return misuse_freed(op, addr, g->size);
	if (live && addr - g->ptr < g->size)
		return interior(op, addr, g->ptr, g->size);
	return misuse_invalid(op, addr);
}

static bool check_large(enum misuse_op op, const struct large *l, uintptr_t addr) {
	uintptr_t base = (uintptr_t)l->span.base;
	/* Acquire: what was freed has its final size. */
	bool live = atomic_load_explicit(&l->state, memory_order_acquire) == LARGE_LIVE;
	if (addr == base && !live)
		return misuse_freed(op, addr, l->size);
	if (live && addr - base < l->usable)
		return interior(op, addr, base, l->size);
	return misuse_invalid(op, addr);
}

bool misuse_check_granule(enum misuse_op op, struct pagemap_entry e, uintptr_t addr) {
	size_t size = (size_t)e.desc;
	switch (e.tag) {
	case TAG_LARGE:
		return check_large(op, e.desc, addr);
	case TAG_LARGE_GONE:
		return true;
	case TAG_LARGE_FREED:
		return addr % GRANULE == 0 ? misuse_freed(op, addr, size) : misuse_invalid(op, addr);
	case TAG_LARGE_CACHED:
		return misuse_invalid(op, addr);
	default:
		return size != 0 && addr % GRANULE % size == 0 ? misuse_freed(op, addr, size)
		                                               : misuse_invalid(op, addr);
	}
}
