/* SPDX-License-Identifier: MIT */
#include "observe/sample.h"

#include <string.h>

#include "front/alloc.h"
#include "front/locked_heap.h"
#include "front/sampling.h"
#include "observe/stack.h"
#include "os/os.h"
#include "space/meta.h"

enum { TABLE_BITS = 15, TABLE = 1 << TABLE_BITS };

struct block {
	struct block *next; /* of the same hash, or unused */
	uintptr_t addr;
	struct site *site;  /* NULL: it is not sampled, but has a mark */
	const struct locked_heap *of; /* a first-class heap; NULL: none */
	const struct heap *by; /* who has given it out; NULL: that does not matter */
	unsigned sc;
	struct mark mark;   /* goes back to that heap */
};

/* By hash. Chains are under the lock; whether one is empty may be asked without. */
struct sample_blocks {
	struct block *chain[TABLE];
	struct site *sites[TABLE];
};

struct sample_blocks *hak_sample_blocks;

static struct {
	struct lock control;      /* guards starting and stopping */
	struct lock lock;         /* guards the tables and the sites' counts */
	struct locked_heap *heap; /* sampled small blocks */
	struct block *unused;
	_Atomic(struct site *) sites;
	_Atomic size_t mean;      /* of the profile; 0: none */
} sample;

const struct site *sample_sites(void) {
	/* Acquire: the sites. */
	return atomic_load_explicit(&sample.sites, memory_order_acquire);
}

size_t sample_mean(void) {
	return atomic_load_explicit(&sample.mean, memory_order_relaxed);
}

bool sample_is_on(void) {
	return atomic_load_explicit(&hak_sampling.mean, memory_order_relaxed) != 0;
}

/* ---- on and off ---- */

static bool prepare_locked(const void *caller) {
	if (sample_has_blocks())
		return true;
	struct sample_blocks *blocks = os_map(NULL, sizeof *blocks);
	if (blocks == NULL)
		return false;
	if (sample.heap == NULL)
		sample.heap = locked_heap_new();
	if (sample.heap == NULL || !stack_prepare(caller)) {
		os_unmap(blocks, sizeof *blocks);
		return false;
	}
	/* Release: what was prepared. */
	__atomic_store_n(&hak_sample_blocks, blocks, __ATOMIC_RELEASE);
	return true;
}

bool sample_prepare(const void *caller) {
	lock_acquire(&sample.control);
	bool done = prepare_locked(caller);
	lock_release(&sample.control);
	return done;
}

static void forget_all(void) {
	lock_acquire(&sample.lock);
	for (unsigned i = 0; i < TABLE; i++)
		for (struct block *b = hak_sample_blocks->chain[i], *next; b != NULL; b = next) {
			next = b->next;
			b->next = sample.unused;
			sample.unused = b;
			__atomic_store_n(&hak_sample_blocks->chain[i], next, __ATOMIC_RELAXED);
		}
	for (struct site *s = atomic_load_explicit(&sample.sites, memory_order_relaxed); s != NULL; s = s->next) {
		__atomic_store_n(&s->live, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&s->total, 0, __ATOMIC_RELAXED);
	}
	lock_release(&sample.lock);
}

bool sample_start(size_t mean, const void *caller) {
	lock_acquire(&sample.control);
	bool done = !sample_is_on() && prepare_locked(caller);
	if (done) {
		forget_all();
		atomic_store_explicit(&sample.mean, mean, memory_order_relaxed);
		sampling_set(mean);
		heap_call_threads(false);
	}
	lock_release(&sample.control);
	return done;
}

void sample_stop(void) {
	lock_acquire(&sample.control);
	if (sample_is_on())
		sampling_set(0);
	lock_release(&sample.control);
}

void sample_on(void) {
	if (sample_mean() == 0)
		atomic_store_explicit(&sample.mean, SAMPLE_MEAN, memory_order_relaxed);
	sampling_set(sample_mean());
	heap_call_threads(true);
}

void sample_off(void) {
	sampling_set(0);
}

bool sample_holds_locks(void) {
	return lock_is_held(&sample.control) || lock_is_held(&sample.lock) || stack_holds_lock();
}

void sample_after_fork(void) {
	/* Chains and lists grow and shrink at one end by one store: whoever was amid that lost a node. */
	lock_reset(&sample.control);
	lock_reset(&sample.lock);
	stack_after_fork();
}

/* ---- sites ---- */

static uint64_t mix(uint64_t h, uint64_t value) {
	return (h ^ value) * 0x9e3779b97f4a7c15;
}

static uint64_t hash_of(size_t size, const struct stack *stack) {
	uint64_t h = mix(0, size);
	for (unsigned i = 0; i < stack->depth; i++)
		h = mix(h ^ h >> 32, stack->frame[i]);
	return h;
}

static bool is_site(const struct site *s, uint64_t hash, size_t size, const struct stack *stack) {
	return s->hash == hash && s->size == size && s->depth == stack->depth &&
		memcmp(s->frame, stack->frame, stack->depth * sizeof *s->frame) == 0;
}

static struct site *new_site_locked(struct site **chain, uint64_t hash, size_t size, const struct stack *stack) {
	size_t frames = stack->depth * sizeof *stack->frame;
	struct site *s = meta_alloc(sizeof *s + frames);
	if (s == NULL)
		return NULL;
	*s = (struct site){ .next = atomic_load_explicit(&sample.sites, memory_order_relaxed),
	                    .next_alike = *chain, .hash = hash, .size = size, .depth = stack->depth };
	memcpy(s->frame, stack->frame, frames);
	*chain = s;
	/* Release: all of it. */
	atomic_store_explicit(&sample.sites, s, memory_order_release);
	return s;
}

static struct site *site_locked(size_t size, const struct stack *stack) {
	uint64_t hash = hash_of(size, stack);
	struct site **chain = &hak_sample_blocks->sites[hash >> (64 - TABLE_BITS)];
	for (struct site *s = *chain; s != NULL; s = s->next_alike)
		if (is_site(s, hash, size, stack))
			return s;
	return new_site_locked(chain, hash, size, stack);
}

/* ---- blocks ---- */

static struct block **chain_of(uintptr_t addr) {
	return &hak_sample_blocks->chain[mix(0, addr >> 4) >> (64 - TABLE_BITS)];
}

static struct block *new_block_locked(void) {
	struct block *b = sample.unused;
	if (b == NULL)
		return meta_alloc(sizeof *b);
	sample.unused = b->next;
	return b;
}

static void count_locked(const struct block *b, size_t count) {
	if (b->site != NULL)
		__atomic_store_n(&b->site->live, b->site->live + count, __ATOMIC_RELAXED);
}

static void add_locked(const struct block *what) {
	struct block *b = new_block_locked(), **chain = chain_of(what->addr);
	if (b == NULL)
		return;
	*b = *what;
	b->next = *chain;
	__atomic_store_n(chain, b, __ATOMIC_RELAXED);
	count_locked(b, b->mark.weight);
	if (b->site != NULL)
		__atomic_store_n(&b->site->total, b->site->total + b->mark.weight, __ATOMIC_RELAXED);
}

static void remove_locked(struct block **at) {
	struct block *b = *at;
	__atomic_store_n(at, b->next, __ATOMIC_RELAXED);
	count_locked(b, -(size_t)b->mark.weight);
	b->next = sample.unused;
	sample.unused = b;
}

/* `what`: the block but for its site. */
static void record(struct heap *h, struct block *what, size_t size, const void *caller) {
	struct stack stack;
	h->sampling->is_sampling = true;
	stack_capture(&stack, caller);
	stack_leave_out_own(&stack);
	h->sampling->is_sampling = false;
	lock_acquire(&sample.lock);
	what->site = site_locked(size, &stack);
	if (what->site != NULL)
		add_locked(what);
	lock_release(&sample.lock);
}

static void record_mark(const struct block *what) {
	lock_acquire(&sample.lock);
	add_locked(what);
	lock_release(&sample.lock);
}

void *sample_alloc(struct heap *h, size_t size, size_t align, bool zero, const void *caller) {
	struct block b = { .sc = alloc_class(size, align) };
	enum sampling_what what = sampling_next(h, b.sc, size, &b.mark);
	void *p = NULL;
	if (what != SAMPLING_NOT && b.sc != 0)
		p = locked_heap_alloc(sample.heap, size, align, zero);
	b.by = p != NULL ? h : NULL;
	if (p == NULL)
		p = alloc_block(h, size, align, zero);
	b.addr = (uintptr_t)p;
	if (what == SAMPLING_BLOCK && p != NULL)
		record(h, &b, size, caller);
	else if (what == SAMPLING_MARK && b.by != NULL)
		record_mark(&b);
	return p;
}

/* A block that has no mark. */
static void record_if_due(struct heap *h, struct block b, size_t size, const void *caller) {
	if (sampling_next(h, 0, size, &b.mark) == SAMPLING_BLOCK)
		record(h, &b, size, caller);
}

void sample_heap_block(struct heap *h, struct locked_heap *of, void *ptr, size_t size, const void *caller) {
	record_if_due(h, (struct block){ .addr = (uintptr_t)ptr, .of = of }, size, caller);
}

void sample_freed(struct heap *h, const void *ptr) {
	struct block **at = chain_of((uintptr_t)ptr), b = { .by = NULL };
	/* Relaxed: who frees the block has it from whoever was given it after it was entered. */
	if (HAK_LIKELY(__atomic_load_n(at, __ATOMIC_RELAXED) == NULL))
		return;
	lock_acquire(&sample.lock);
	for (; *at != NULL; at = &(*at)->next)
		if ((*at)->addr == (uintptr_t)ptr) {
			b = **at;
			remove_locked(at);
			break;
		}
	lock_release(&sample.lock);
	if (b.by != NULL && b.by == h && h->sampling != NULL)
		sampling_return(h, b.sc, b.mark);
}

void sample_resized(struct heap *h, const void *old, void *ptr, size_t size, const void *caller) {
	sample_freed(h, old);
	if (h != NULL && h->sampling != NULL)
		record_if_due(h, (struct block){ .addr = (uintptr_t)ptr }, size, caller);
}

void sample_heap_destroyed(const struct locked_heap *of) {
	lock_acquire(&sample.lock);
	for (unsigned i = 0; i < TABLE; i++)
		for (struct block **at = &hak_sample_blocks->chain[i]; *at != NULL;)
			if ((*at)->of == of)
				remove_locked(at);
			else
				at = &(*at)->next;
	lock_release(&sample.lock);
}
