/* SPDX-License-Identifier: MIT */
/* Spans: granules from SuperSlabs, or mapped alone when SuperSlabs are switched off. */
#include "base/bits.h"
#include "base/report.h"
#include "base/settings.h"
#include "build_options.h"
#include "os/alone.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/pagemap.h"
#include "space/purge.h"
#include "space/superslab.h"

/* What maps a span alone: by default hardly any process does; where SuperSlabs are left out, each. */
#if HAK_SUPERSLAB
#define RARELY_ALONE HAK_FAR
#else
#define RARELY_ALONE HAK_COLD
#endif

enum {
	IDLE_MIN = 16 * 1024, /* bytes: below, a system call costs more than the pages are worth */
	END_WORTH = 4, /* and so it does where they are not more than this part of the block before them, since the next
	                  block may need them again, */
	SLACK_PART = 8, /* or where all of them together are less than this part of what is in use, or than PURGE_HEAP */
	ENDS_SHARE = 16, /* where there are other threads, each of which is interrupted, such calls take this part of the time
	                    at most, */
	ENDS_CREDIT = 4, /* and ms of it at once; */
	ENDS_ALL = 1000, /* elsewhere it takes as many ms until as much may be given back as is in use: who uses it again and
	                    again does not need it given back each time */
};
#define ENDS_WAIT (4096 * OS_CYCLES_A_MOMENT) /* for longer it is not waited: the counter has begun anew */

/* What giving ends back has taken is paid for until then, by os_cycles. Relaxed: threads that ask at once may take a
   call too many. */
static _Atomic uint64_t ends_paid;

RARELY_ALONE static bool alloc_alone(size_t granules, struct span *span) {
	void *p = os_map_aligned(granules * GRANULE, GRANULE);
	if (p == NULL)
		return false;
	if (!pagemap_cover((uintptr_t)p, granules)) {
		os_unmap(p, granules * GRANULE);
		return false;
	}
	pagemap_set((uintptr_t)p, granules, TAG_FREE, NULL);
	*span = (struct span){ .base = p, .granules = granules, .zero = true };
	count_shared(&hak_space.alone, granules);
	return true;
}

RARELY_ALONE static void free_alone(const struct span *span) {
	pagemap_set_tag((uintptr_t)span->base, span->granules, TAG_NONE);
	if (span->was_large)
		pagemap_set((uintptr_t)span->base, 1, TAG_LARGE_GONE, (void *)span->last_size);
	if (!os_unmap(span->base, span->granules * GRANULE))
		os_purge(span->base, span->granules * GRANULE);
	count_shared(&hak_space.alone, -span->granules);
}

/* For the log, which must be written without the lock. */
static void log_superslab(const struct superslab *ss, const char *what, size_t bytes) {
	struct line l;
	if (!hak_settings.pagebox_log)
		return;
	line_begin(&l);
	line_str(&l, "SuperSlab ");
	line_ptr(&l, (const void *)ss->base);
	line_str(&l, what);
	if (bytes != 0) {
		line_str(&l, ", bytes ");
		line_dec(&l, bytes);
	}
	line_write(&l);
}

/* Where the system cannot do it by one call, by touching them: our own, up to `end`. Others may be inaccessible. Returns
   how many bytes. */
HAK_FAR static size_t touch_own(const struct span *own, uintptr_t end) {
	uintptr_t base = (uintptr_t)own->base;
	end = min_size(end, base + own->granules * GRANULE);
	for (uintptr_t at = base; at < end; at += os_facts.page_size)
		*(volatile char *)at = 0;
	return end > base ? end - base : 0;
}

/* Is all of it clean, the granules too that were just taken? Under the lock. */
static bool awaits_huge_page(const struct superslab *ss, size_t granules, unsigned first) {
	return ss->huge && hak_settings.thp == THP_AUTO && (ss->zero | low_mask32((unsigned)granules) << first) == UINT32_MAX;
}

/* The first touch makes all of the SuperSlab resident, by one huge page. That takes 0.1 to 0.2 ms, where small pages
   take 0.2 to 1, unless the system has to move other memory out of the way, or the host of a virtual machine, which had
   been told that the page is free, has to find memory: 4 to 16 ms have been seen. */
HAK_FAR static void touch_huge_page(char *own) {
	uint64_t before = os_cycles();
	__atomic_fetch_or(own, 0, __ATOMIC_RELAXED);
	bool was_slow = os_cycles() - before > os_cycles_a_ms();
	space_acquire();
	superslab_note_huge_page(was_slow);
	lock_release(space_lock());
}

/* The SuperSlab is new, and one span of it is ours: it cannot go away. */
static void settle(struct superslab *ss, const struct span *own) {
	size_t bytes = min_size(align_up(SUPERSLAB / 100 * hak_settings.prefault, os_facts.page_size), SUPERSLAB);
	log_superslab(ss, ss->huge ? " mapped, for huge pages" : " mapped", 0);
	if (bytes == 0)
		return;
	size_t done = os_populate((void *)ss->base, bytes) ? bytes : touch_own(own, ss->base + bytes);
	if (done != 0)
		log_superslab(ss, " made resident", done);
}

/* `grownp`: for that a SuperSlab had to be made. */
HAK_NOINLINE HAK_EVERYDAY_SMALL static struct superslab *take_locked(size_t granules, enum span_use use, unsigned *firstp,
                                                                     bool *zerop, bool *grownp) {
	struct superslab *ss = superslab_take(granules, use, firstp, zerop);
	*grownp = false;
	if (HAK_LIKELY(ss != NULL) || use == SPAN_DIRTY)
		return ss;
	*grownp = superslab_grow(use);
	return superslab_take(granules, use, firstp, zerop);
}

/* Of the block or the blocks that a free granule says were there last. */
static size_t last_size(struct pagemap_entry e) {
	size_t size = (size_t)e.desc;
	return e.tag == TAG_LARGE_FREED ? align_up(size, os_facts.page_size) : size; /* large: as it was asked for */
}

/* Did it hold blocks of that size when it was last in use? */
HAK_FAR static bool held_likewise(uintptr_t base, size_t size) {
	return size != 0 && last_size(pagemap_find(base)) == size;
}

HAK_COLD size_t span_idle(size_t granules, size_t size) {
	size_t idle = (granules << GRANULE_SHIFT) % size & ~(os_facts.page_size - 1);
	return idle >= IDLE_MIN ? idle : 0;
}

/* Do the free granules behind a span's first say that they belonged to what was there? */
static bool follow_first(uintptr_t base, size_t granules) {
	bool all = true;
	for (size_t i = 1; i < granules && all; i++) {
		struct pagemap_entry e = pagemap_find(base + (i << GRANULE_SHIFT));
		all = e.tag == TAG_FREE && e.desc == NULL;
	}
	return all;
}

static bool ends_may_cost(void) {
	return atomic_load_explicit(&ends_paid, memory_order_relaxed) - os_cycles() > ENDS_WAIT;
}

static size_t bytes_in_use(void) {
	return (hak_space.live + space_big()) << GRANULE_SHIFT;
}

/* So many bytes were given back. */
HAK_FAR static void note_cost(uint64_t before, size_t bytes) {
	uint64_t paid = atomic_load_explicit(&ends_paid, memory_order_relaxed);
	uint64_t credit = ENDS_CREDIT * ENDS_SHARE * os_cycles_a_ms(), cost = (os_cycles() - before) * ENDS_SHARE;
	if (process_is_alone()) {
		credit = ENDS_ALL * os_cycles_a_ms();
		cost = credit * bytes / max_size(bytes_in_use(), bytes); /* a fork child may not know of the span yet */
	}
	uint64_t earliest = before - credit;
	if (paid - earliest > ENDS_WAIT) /* or less: long ago */
		paid = earliest;
	atomic_store_explicit(&ends_paid, paid + cost, memory_order_relaxed);
}

/* How much of the `idle` bytes at a dirty span's end is resident? If one large block had all of it last, or blocks of
   the same size, what these used; else it may be all. */
HAK_FAR static size_t resident_end(uintptr_t base, size_t granules, size_t size, size_t idle) {
	struct pagemap_entry e = pagemap_find(base);
	size_t last = last_size(e);
	if (last == size)
		return 0;
	bool is_one = e.tag == TAG_LARGE_FREED && last > (granules - 1) << GRANULE_SHIFT && follow_first(base, granules);
	return is_one ? min_size(last - min_size(size, last), idle) : idle;
}

/* Is what blocks leave over of a clean span sure not to be resident? */
static bool stays_clean(const struct superslab *ss) {
	return !ss->huge && hak_settings.thp != THP_ALWAYS && hak_settings.prefault == 0;
}

/* What blocks of that size leave over of a span that is being handed out: is it resident? Of a dirty one that is known
   only while much is kept. True: it is to be given back, which a little is not worth. Under the lock. */
HAK_COLD static bool note_end(struct span *span, size_t size) {
	size_t end = span_idle(span->granules, size), resident = end;
	bool drop = false;
	if (end == 0)
		return false;
	if (span->zero) {
		if (stays_clean(span->ss))
			resident = 0;
	} else if (purge_breathes()) {
		size_t much = max_size(bytes_in_use() / SLACK_PART, PURGE_HEAP);
		resident = resident_end((uintptr_t)span->base, span->granules, size, end);
		drop = resident >= IDLE_MIN && resident > size / END_WORTH && hak_space.slack + resident >= much &&
			ends_may_cost();
	}
	if (drop)
		resident = 0;
	else if (resident != 0 && size <= GRANULE / 2) /* slabs tell all or nothing */
		resident = end;
	span->idle = end - resident;
	span->slack = resident;
	hak_space.idle += span->idle;
	hak_space.slack += span->slack;
	return drop;
}

/* Under the lock. A fork child may not know of all of it. */
static void forget_end(const struct span *span) {
	hak_space.idle -= min_size(span->idle, hak_space.idle);
	hak_space.slack -= min_size(span->slack, hak_space.slack);
}

HAK_COLD void span_use(struct span *span, size_t bytes) {
	if (bytes <= (span->granules << GRANULE_SHIFT) - span->idle - span->slack)
		return;
	space_acquire();
	forget_end(span);
	lock_release(space_lock());
	span->idle = span->slack = 0;
}

HAK_FAR static void drop_end(struct span *span) {
	size_t bytes = span->granules << GRANULE_SHIFT, idle = span->idle;
	uint64_t before = os_cycles();
	if (!os_purge((char *)span->base + bytes - idle, idle))
		span_use(span, bytes);
	note_cost(before, idle);
}

static struct span span_at(struct superslab *ss, unsigned first, size_t granules, bool zero) {
	return (struct span){ .base = (void *)(ss->base + first * GRANULE), .granules = granules, .ss = ss, .zero = zero };
}

/* Dirty granules, while there are more than others are likely to want at once, or clean ones, which cost nothing, if
   there are none. Under the lock. */
HAK_FAR static unsigned take_more(enum span_use use, struct span *span, unsigned most) {
	unsigned n = 0, first;
	bool zero;
	for (; n < most && (hak_space.dirty > SPAN_BATCH || hak_space.dirty == 0); n++) {
		struct superslab *ss = superslab_take(1, use, &first, &zero);
		if (ss == NULL)
			break;
		span[n] = span_at(ss, first, 1, zero);
	}
	return n;
}

HAK_EVERYDAY_SMALL static unsigned alloc(size_t granules, enum span_use use, size_t size, struct span *span,
                                         unsigned most) {
	if (!hak_settings.use_superslab)
		return alloc_alone(granules, span);
	unsigned first, n = 1;
	bool zero, grown;
	space_acquire();
	size_t regrets = hak_space.regrets;
	struct superslab *ss = take_locked(granules, use, &first, &zero, &grown);
	if (ss == NULL && use == SPAN_ROOMY) /* rather among huge pages than not at all */
		ss = take_locked(granules, SPAN_DENSE, &first, &zero, &grown);
	if (ss == NULL) {
		lock_release(space_lock());
		return 0;
	}
	if (hak_space.regrets != regrets && held_likewise(ss->base + first * GRANULE, size))
		purge_note_breath();
	*span = span_at(ss, first, granules, zero);
	span->lately = zero && purge_was_lately(ss);
	bool is_huge_page = zero && awaits_huge_page(ss, granules, first);
	if (HAK_UNLIKELY(most > 1))
		n += take_more(use, span + 1, most - 1);
	bool drop = size > IDLE_MIN && note_end(span, size); /* less than one block is over */
	purge_after_growth_locked();
	lock_release(space_lock());
	if (grown)
		settle(ss, span);
	if (HAK_UNLIKELY(is_huge_page))
		touch_huge_page(span->base);
	if (drop)
		drop_end(span);
	return n;
}

bool span_alloc(size_t granules, enum span_use use, size_t size, struct span *span) {
	return alloc(granules, use, size, span, 1) != 0;
}

unsigned span_alloc_several(enum span_use use, size_t size, struct span *span, unsigned most) {
	return alloc(1, use, size, span, most);
}

static unsigned index_in(const struct superslab *ss, const void *base) {
	return (unsigned)(((uintptr_t)base - ss->base) >> GRANULE_SHIFT);
}

/* Says in the page map what was here last, so that a second free can be named. */
static void leave_trace(const struct span *span) {
	pagemap_set((uintptr_t)span->base, span->granules, TAG_FREE,
	            (void *)(span->was_large ? 0 : span->last_size));
	if (span->was_large)
		pagemap_set((uintptr_t)span->base, 1, TAG_LARGE_FREED, (void *)span->last_size);
}

/* As many of the spans as lie in one SuperSlab and follow each other here. Under the lock. */
HAK_NOINLINE HAK_EVERYDAY_SMALL static unsigned put_locked(const struct span *span, const size_t *touched, unsigned n) {
	struct superslab *ss = span->ss;
	uint32_t mask = 0, dirty = 0;
	size_t hollow = 0;
	unsigned i = 0;
	for (; i < n && span[i].ss == ss; i++) {
		unsigned first = index_in(ss, span[i].base);
		unsigned used = (unsigned)min_size((touched[i] + GRANULE - 1) >> GRANULE_SHIFT, span[i].granules);
		size_t bytes = (size_t)used << GRANULE_SHIFT;
		mask |= low_mask32((unsigned)span[i].granules) << first;
		dirty |= used == 0 ? 0 : low_mask32(used) << first;
		hollow += min_size(span[i].idle, bytes - min_size(touched[i], bytes));
		forget_end(&span[i]);
	}
	superslab_put(ss, mask, dirty);
	superslab_count_hollow(ss, hollow);
	return i;
}

HAK_EVERYDAY_SMALL void span_free_several(const struct span *span, const size_t *touched, unsigned n) {
	if (span->ss == NULL) { /* so are all */
		for (unsigned i = 0; i < n; i++)
			free_alone(&span[i]);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		leave_trace(&span[i]);
	space_acquire();
	for (unsigned done = 0; done < n;)
		done += put_locked(span + done, touched + done, n - done);
	purge_after_free_locked();
	lock_release(space_lock());
}

HAK_COLD bool span_extend(struct span *span, size_t granules, bool *zerop) {
	struct superslab *ss = span->ss;
	if (ss == NULL)
		return false;
	unsigned first = index_in(ss, span->base) + (unsigned)span->granules;
	unsigned n = (unsigned)(granules - span->granules);
	if (first + n > SUPERSLAB_GRANULES)
		return false;
	uint32_t mask = low_mask32(n) << first;
	space_acquire();
	bool ok = (ss->free & mask) == mask;
	if (ok) {
		*zerop = (ss->zero & mask) == mask;
		superslab_uncount_dirty(ss, superslab_count(mask & ~ss->zero));
		space_count_live(n);
		ss->free &= ~mask;
		ss->zero &= ~mask;
		superslab_refile(ss);
		forget_end(span);
		span->granules = granules;
		span->idle = span->slack = 0; /* what follows it is in use now */
		purge_after_growth_locked();
	}
	lock_release(space_lock());
	return ok;
}

HAK_FAR void span_shrink(struct span *span, size_t granules) {
	struct span tail = { .base = (char *)span->base + granules * GRANULE,
	                     .granules = span->granules - granules, .ss = span->ss,
	                     .idle = span->idle, .slack = span->slack };
	span->granules = granules;
	span->idle = span->slack = 0;
	span_free(&tail, tail.granules * GRANULE);
}
