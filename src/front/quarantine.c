/* SPDX-License-Identifier: MIT */
#include "front/quarantine.h"

#include "front/alloc.h"
#include "front/secure.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/meta.h"

struct large_queue {
	size_t bytes;
	uint32_t oldest, count;
	struct large *queue[LARGE_BLOCKS];
};

/* Under `lock`. */
HAK_LATE_IN_BSS struct large_quarantine {
	struct lock lock;
	struct large_queue shut, zeroed;
} hak_large_quarantine;

struct quarantine *quarantine_new(void) {
	return meta_alloc(sizeof(struct quarantine));
}

/* ---- small blocks ---- */

static void let_go(struct heap *h, struct held held) {
	struct slab *s = pagemap_find(held.block).desc;
	size_t size = s->block_size;
	h->quarantine->bytes -= size;
	h->quarantine->quarantined.blocks[s->sc]--;
	uint64_t word = canary_load(held.block, size);
	size_t usable = size - CANARY_BYTES;
	if (!memory_is_zero(held.block, usable) || !canary_says_freed(held.block, word))
		misuse_written(MISUSE_AFTER_FREE, held.block, secure_usable_size(s, held.block));
	else
		block_put(h, s, held.block);
}

static struct held take_oldest(struct quarantine *q) {
	enum { AHEAD = 6 };
	struct held held = q->queue[q->oldest];
	/* What leaves soon has not been looked at for long. */
	__builtin_prefetch((const void *)q->queue[(q->oldest + AHEAD) % QUEUED_BLOCKS].block);
	q->oldest = (q->oldest + 1) % QUEUED_BLOCKS;
	q->count--;
	return held;
}

static void enqueue(struct heap *h, struct held held) {
	struct quarantine *q = h->quarantine;
	if (q->count == QUEUED_BLOCKS)
		let_go(h, take_oldest(q));
	q->queue[(q->oldest + q->count) % QUEUED_BLOCKS] = held;
	q->count++;
}

void quarantine_add(struct heap *h, const struct slab *s, uintptr_t block) {
	size_t size = s->block_size;
	struct quarantine *q = h->quarantine;
	struct held held = { block, os_cycles() };
	q->bytes += size;
	q->quarantined.blocks[s->sc]++;
	if (size <= RANDOM_SIZE_MOST) {
		struct held *place = &q->random[secure_random(h) % RANDOM_BLOCKS];
		struct held before = *place;
		*place = held;
		held = before;
	}
	if (held.block != 0)
		enqueue(h, held);
	while (q->bytes > QUARANTINE_BYTES && q->count > 0)
		let_go(h, take_oldest(q));
}

void quarantine_flush(struct heap *h) {
	struct quarantine *q = h->quarantine;
	if (q == NULL)
		return;
	while (q->count > 0)
		let_go(h, take_oldest(q));
	for (unsigned i = 0; i < RANDOM_BLOCKS && q->bytes > 0; i++) {
		struct held held = q->random[i];
		q->random[i].block = 0;
		if (held.block != 0)
			let_go(h, held);
	}
}

void quarantine_forget(struct heap *h) {
	struct quarantine *q = h->quarantine;
	if (q == NULL)
		return;
	q->bytes = q->count = 0;
	q->quarantined = (struct quarantined){ 0 };
	for (unsigned i = 0; i < RANDOM_BLOCKS; i++)
		q->random[i].block = 0;
}

static const struct held *find_in(const struct quarantine *q, uintptr_t block) {
	for (unsigned i = 0; i < RANDOM_BLOCKS; i++)
		if (q->random[i].block == block)
			return &q->random[i];
	for (unsigned i = 0; i < q->count && i < QUEUED_BLOCKS; i++) {
		const struct held *held = &q->queue[(q->oldest + i) % QUEUED_BLOCKS];
		if (held->block == block)
			return held;
	}
	return NULL;
}

HAK_GUESS bool quarantine_find(uintptr_t block, const struct heap **heapp, uint64_t *cyclesp) {
	for (const struct heap *h = heap_registry(); h != NULL; h = h->next) {
		const struct held *held = h->quarantine != NULL ? find_in(h->quarantine, block) : NULL;
		if (held == NULL)
			continue;
		*heapp = h;
		*cyclesp = os_cycles() - held->freed;
		return true;
	}
	return false;
}

/* ---- large blocks ---- */

struct lock *quarantine_lock(void) {
	return &hak_large_quarantine.lock;
}

void quarantine_reset(void) {
	hak_large_quarantine.shut.bytes = hak_large_quarantine.shut.count = 0;
	hak_large_quarantine.zeroed.bytes = hak_large_quarantine.zeroed.count = 0;
}

bool quarantine_zeroes(const struct large *l) {
	return l->usable <= ZEROED_SIZE_MOST && hak_settings.secure < 3;
}

static struct large *take_oldest_large_locked(struct large_queue *q) {
	struct large *l = q->queue[q->oldest];
	q->oldest = (q->oldest + 1) % LARGE_BLOCKS;
	q->count--;
	q->bytes -= l->span.granules << GRANULE_SHIFT;
	return l;
}

static void let_go_large(struct large *l) {
	uintptr_t base = (uintptr_t)l->span.base;
	/* What was written to can only be left where it is. */
	if (!l->is_shut && !memory_is_zero(base, l->usable))
		misuse_written(MISUSE_AFTER_FREE, base, l->size);
	else if (!l->is_breached)
		large_dispose(l);
}

void quarantine_add_large(struct large *l) {
	size_t bytes = l->span.granules << GRANULE_SHIFT;
	if (bytes > LARGE_SIZE_MOST) {
		large_release(l); /* whoever still reads or writes it finds nothing, until another mapping takes its place */
		return;
	}
	bool zeroes = quarantine_zeroes(l);
	struct large_queue *q = zeroes ? &hak_large_quarantine.zeroed : &hak_large_quarantine.shut;
	size_t most = zeroes ? ZEROED_BYTES : LARGE_BYTES;
	l->is_shut = !zeroes && os_protect(l->span.base, l->usable, false);
	if (!zeroes && !l->is_shut)
		os_protect(l->span.base, l->usable, true); /* it may be shut in part */
	lock_acquire(&hak_large_quarantine.lock);
	q->bytes += bytes;
	while (q->count > 0 && (q->count == LARGE_BLOCKS || q->bytes > most)) {
		struct large *old = take_oldest_large_locked(q);
		lock_release(&hak_large_quarantine.lock);
		let_go_large(old);
		lock_acquire(&hak_large_quarantine.lock);
	}
	q->queue[(q->oldest + q->count) % LARGE_BLOCKS] = l;
	q->count++;
	lock_release(&hak_large_quarantine.lock);
}

static bool flush_queue(struct large_queue *q) {
	bool any = false;
	lock_acquire(&hak_large_quarantine.lock);
	while (q->count > 0) {
		struct large *old = take_oldest_large_locked(q);
		lock_release(&hak_large_quarantine.lock);
		let_go_large(old);
		any = true;
		lock_acquire(&hak_large_quarantine.lock);
	}
	lock_release(&hak_large_quarantine.lock);
	return any;
}

bool quarantine_flush_large(void) {
	bool any = flush_queue(&hak_large_quarantine.shut);
	return flush_queue(&hak_large_quarantine.zeroed) || any;
}
