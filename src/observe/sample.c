/* SPDX-License-Identifier: MIT */
#include "observe/sample.h"

#include <string.h>

#include "base/bits.h"
#include "front/alloc.h"
#include "front/locked_heap.h"
#include "front/sampling.h"
#include "observe/stack.h"
#include "os/os.h"
#include "space/meta.h"

enum {
	SITE_BITS = 15, SITE_CHAINS = 1 << SITE_BITS,
	FIRST_BITS = 15, /* of the blocks' chains */
};

struct block {
	struct block *next; /* of the same hash, or unused */
	uintptr_t addr;
	struct site *site;  /* NULL: it is not sampled, but has a mark */
	struct locked_heap *of; /* a first-class heap; NULL: none */
	const struct heap *by; /* who has given it out; NULL: that does not matter */
	unsigned sc;
	struct mark mark;   /* goes back to that heap */
	struct estimate is; /* what it stands for */
};

/* By hash: twice as many chains as blocks at least, if there is memory, so that most of what is freed finds an empty
   one. Chains are under the lock; whether one is empty may be asked without. */
struct sample_blocks {
	unsigned bits; /* 2^bits chains; constant */
	struct block *chain[];
};

static_assert(STACK_MOST >> 6 == 0, "the sixth cut leaves no frame, as sample.h says");

struct sample_blocks *hak_sample_blocks;

static struct {
	struct lock control;      /* guards starting and stopping */
	struct lock lock;         /* guards the tables and the sites' numbers */
	struct lock file_lock;    /* whoever writes the profile that the setting asks for has it */
	struct locked_heap *heap; /* sampled small blocks */
	struct block *unused;
	size_t blocks;            /* in chains */
	struct sample_blocks *prepared; /* the first chains, for hak_sample_blocks once something is to be sampled */
	struct site **alike;      /* SITE_CHAINS chains by hash */
	_Atomic(struct site *) sites;
	unsigned sites_made;
	_Atomic size_t mean;      /* of the profile; 0: none */
	volatile bool may_be_off; /* sample_on began what there is, or the last there was, and not sample_start */
} sample;

/* Calls of the thread that are at the lock, or wait for it: a signal handler amid one must not wait. */
static HAK_TLS uint8_t calls_at_lock;

/* Takes the lock. False: it would have to wait for long, and may not; what was to be noted is lost. */
static bool enter(bool may_wait) {
	may_wait &= calls_at_lock++ == 0;
	atomic_signal_fence(memory_order_seq_cst);
	if (HAK_LIKELY(lock_try(&sample.lock) || lock_acquire_slow(&sample.lock, may_wait)))
		return true;
	calls_at_lock--;
	return false;
}

static void leave(void) {
	lock_release(&sample.lock);
	atomic_signal_fence(memory_order_seq_cst);
	calls_at_lock--;
}

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

/* ---- chains of blocks ---- */

static uint64_t mix(uint64_t h, uint64_t value) {
	return (h ^ value) * 0x9e3779b97f4a7c15;
}

static struct block **chain_in(struct sample_blocks *table, uintptr_t addr) {
	return &table->chain[mix(0, addr >> 4) >> (64 - table->bits)];
}

static struct block **chain_of(uintptr_t addr) {
	/* Acquire: `bits`. */
	return chain_in(__atomic_load_n(&hak_sample_blocks, __ATOMIC_ACQUIRE), addr);
}

static size_t chains(void) {
	return (size_t)1 << hak_sample_blocks->bits;
}

static void take_out_locked(struct block **at) {
	struct block *b = *at;
	__atomic_store_n(at, b->next, __ATOMIC_RELAXED);
	if (b->of != NULL)
		b->of->sampled--;
	b->next = sample.unused;
	sample.unused = b;
	sample.blocks--;
}

/* Twice as many as `old`, or the first ones, NULL, into `*to`. False: no memory. Under the lock, once there are any. The
   old heads stay, for who looks at them without the lock: whatever is in a chain there is found not to be empty. */
static bool add_chains(struct sample_blocks **to, const struct sample_blocks *old) {
	unsigned bits = old != NULL ? old->bits + 1 : FIRST_BITS;
	struct sample_blocks *table = os_map(NULL, (sizeof *table->chain << bits) + GRANULE);
	if (table == NULL)
		return false;
	table->bits = bits;
	size_t chains_before = old != NULL ? (size_t)1 << old->bits : 0;
	for (size_t i = 0; i < chains_before; i++)
		for (struct block *b = old->chain[i], *next; b != NULL; b = next) {
			struct block **chain = chain_in(table, b->addr);
			next = b->next;
			while (*chain != NULL) /* in the same order, by which sample_freed goes */
				chain = &(*chain)->next;
			b->next = NULL;
			*chain = b;
		}
	/* Release: all of it, and what else was prepared. */
	__atomic_store_n(to, table, __ATOMIC_RELEASE);
	return true;
}

/* ---- on and off ---- */

bool sample_is_prepared(void) {
	/* Acquire: all that was prepared. */
	return __atomic_load_n(&sample.prepared, __ATOMIC_ACQUIRE) != NULL;
}

/* From here on every free looks whether it is of a sampled block. Others may have begun, and have more chains by now. */
static void begin(void) {
	struct sample_blocks *none = NULL;
	__atomic_compare_exchange_n(&hak_sample_blocks, &none, sample.prepared, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static bool prepare_locked(const void *caller) {
	if (sample_is_prepared())
		return true;
	if (sample.alike == NULL)
		sample.alike = os_map(NULL, SITE_CHAINS * sizeof *sample.alike);
	if (sample.heap == NULL)
		sample.heap = locked_heap_new();
	return sample.alike != NULL && sample.heap != NULL && stack_prepare(caller) &&
		add_chains(&sample.prepared, NULL);
}

bool sample_prepare(const void *caller) {
	lock_acquire(&sample.control);
	bool done = prepare_locked(caller);
	lock_release(&sample.control);
	return done;
}

static void set(struct estimate *e, double blocks, double bytes) {
	__atomic_store(&e->blocks, &blocks, __ATOMIC_RELAXED);
	__atomic_store(&e->bytes, &bytes, __ATOMIC_RELAXED);
}

static void forget_all(void) {
	if (!enter(true))
		return;
	for (size_t i = 0; i < chains(); i++)
		while (hak_sample_blocks->chain[i] != NULL)
			take_out_locked(&hak_sample_blocks->chain[i]);
	for (struct site *s = atomic_load_explicit(&sample.sites, memory_order_relaxed); s != NULL; s = s->next) {
		__atomic_store_n(&s->samples, 0, __ATOMIC_RELAXED);
		set(&s->live, 0, 0);
		set(&s->total, 0, 0);
	}
	leave();
}

bool sample_start(size_t mean, const void *caller) {
	lock_acquire(&sample.control);
	bool done = hak_settings.secure == 0 && !sample_is_on() && prepare_locked(caller);
	if (done) {
		begin();
		forget_all();
		sample.may_be_off = false;
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
	begin();
	if (sample_mean() == 0)
		atomic_store_explicit(&sample.mean, SAMPLE_MEAN, memory_order_relaxed);
	sample.may_be_off = true;
	sampling_set(sample_mean());
	heap_call_threads(true);
}

void sample_off(void) {
	if (sample.may_be_off)
		sampling_set(0);
}

struct lock *sample_file_lock(void) {
	return &sample.file_lock;
}

bool sample_holds_locks(void) {
	return lock_is_held(&sample.control) || lock_is_held(&sample.lock) || stack_holds_lock();
}

void sample_after_fork(void) {
	/* Chains and lists grow and shrink at one end by one store: whoever was amid that lost a node, and whoever
	   was amid making more chains lost blocks that are not there yet, which live in the profile from here on. */
	lock_reset(&sample.control);
	lock_reset(&sample.lock);
	lock_reset(&sample.file_lock);
	stack_after_fork();
}

/* ---- sites ---- */

static struct site **alike(const struct stack *stack) {
	uint64_t h = 0;
	for (unsigned i = 0; i < stack->depth; i++)
		h = mix(h ^ h >> 32, stack->frame[i]);
	return &sample.alike[h >> (64 - SITE_BITS)];
}

static struct site *new_site_locked(struct site **chain, const struct stack *stack) {
	size_t frames = stack->depth * sizeof *stack->frame;
	struct site *s = meta_alloc(sizeof *s + frames);
	if (s == NULL)
		return NULL;
	*s = (struct site){ .next = atomic_load_explicit(&sample.sites, memory_order_relaxed),
	                    .next_alike = *chain, .depth = stack->depth };
	memcpy(s->frame, stack->frame, frames);
	*chain = s;
	sample.sites_made++;
	/* Release: all of it. */
	atomic_store_explicit(&sample.sites, s, memory_order_release);
	return s;
}

static bool has_frames(const struct site *s, const struct stack *stack) {
	if (s->depth != stack->depth)
		return false;
	for (unsigned i = 0; i < s->depth; i++)
		if (s->frame[i] != stack->frame[i])
			return false;
	return true;
}

/* Ends: there is one site of no frames at most. Cuts the stack. */
static struct site *site_locked(struct stack *stack) {
	for (unsigned cut = 0;; cut++) {
		stack->depth = (unsigned)min_size(stack->depth, STACK_MOST >> cut);
		struct site **chain = alike(stack);
		for (struct site *s = *chain; s != NULL; s = s->next_alike)
			if (has_frames(s, stack))
				return s;
		if (cut == sample.sites_made / SITES_STEP)
			return new_site_locked(chain, stack);
	}
}

/* ---- blocks ---- */

static struct block *new_block_locked(void) {
	struct block *b = sample.unused;
	if (b == NULL)
		return meta_alloc(sizeof *b);
	sample.unused = b->next;
	return b;
}

static void add(struct estimate *e, int sign, const struct estimate *what) {
	set(e, e->blocks + sign * what->blocks, e->bytes + sign * what->bytes);
}

/* `sign`: 1, or -1 if it is no longer. */
static void count_locked(const struct block *b, int sign) {
	struct site *s = b->site;
	if (s == NULL)
		return;
	ptrdiff_t left = (ptrdiff_t)s->samples + sign * (ptrdiff_t)b->mark.weight;
	/* A fork child may have caught another thread between a block and its count. */
	size_t samples = left > 0 ? (size_t)left : 0;
	__atomic_store_n(&s->samples, samples, __ATOMIC_RELAXED);
	if (sign > 0)
		add(&s->total, 1, &b->is);
	add(&s->live, sign, &b->is);
	if (samples == 0)
		set(&s->live, 0, 0); /* sums of fractions need not come back to it */
}

static void add_locked(const struct block *what) {
	struct block *b = new_block_locked(), **chain = chain_of(what->addr);
	if (b == NULL)
		return;
	*b = *what;
	b->next = *chain;
	__atomic_store_n(chain, b, __ATOMIC_RELAXED);
	count_locked(b, 1);
	if (b->of != NULL)
		b->of->sampled++;
	size_t now = ++sample.blocks;
	while (now >= chains() / 2 && is_pow2(now) && add_chains(&hak_sample_blocks, hak_sample_blocks))
		;
}

static void remove_locked(struct block **at) {
	count_locked(*at, -1);
	take_out_locked(at);
}

/* `what`: the block but for its site and what it stands for. */
static void record(struct heap *h, struct block *what, size_t size, const void *caller) {
	struct stack stack;
	struct sampling *s = h->sampling; /* which the heap may leave amid this: the unwinder allocates */
	double bytes = size_to_real(max_size(size, 1)), mean = size_to_real(s->mean);
	what->is.blocks = what->mark.weight / sampling_chance(bytes / mean);
	what->is.bytes = what->is.blocks * bytes;
	s->is_sampling = true;
	stack_capture(&stack, caller);
	stack_leave_out_own(&stack);
	s->is_sampling = false;
	if (!enter(true))
		return;
	what->site = site_locked(&stack);
	if (what->site != NULL)
		add_locked(what);
	leave();
}

static void record_mark(const struct block *what) {
	if (!enter(true))
		return;
	add_locked(what);
	leave();
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
	/* Not what the heap's own bin gave: nobody would see it freed. */
	if (what == SAMPLING_BLOCK && p != NULL && (b.by != NULL || b.sc == 0))
		record(h, &b, size, caller);
	else if (what == SAMPLING_MARK && b.by != NULL)
		record_mark(&b);
	return p;
}

/* What has no mark. */
void sample_heap_block(struct heap *h, struct locked_heap *of, void *ptr, size_t size, const void *caller) {
	struct block b = { .addr = (uintptr_t)ptr, .of = of };
	if (sampling_next(h, 0, size, &b.mark) == SAMPLING_BLOCK)
		record(h, &b, size, caller);
}

bool sample_freed(struct heap *h, const void *ptr, bool may_wait) {
	struct block b = { .by = NULL };
	/* Relaxed: who frees the block has it from whoever was given it after it was entered. */
	if (HAK_LIKELY(__atomic_load_n(chain_of((uintptr_t)ptr), __ATOMIC_RELAXED) == NULL))
		return true;
	if (!enter(may_wait))
		return false;
	/* The oldest: while a block that realloc has moved is entered yet, there may be another where it was. */
	struct block **found = NULL;
	for (struct block **at = chain_of((uintptr_t)ptr); *at != NULL; at = &(*at)->next)
		if ((*at)->addr == (uintptr_t)ptr)
			found = at;
	if (found != NULL) {
		b = **found;
		remove_locked(found);
	}
	leave();
	if (b.by != NULL && b.by == h && h->sampling != NULL)
		sampling_return(h, b.sc, b.mark);
	return true;
}

void sample_heap_destroyed(struct locked_heap *of) {
	if (!enter(true))
		return;
	for (size_t i = 0; of->sampled != 0 && i < chains(); i++)
		for (struct block **at = &hak_sample_blocks->chain[i]; *at != NULL;)
			if ((*at)->of == of)
				remove_locked(at);
			else
				at = &(*at)->next;
	of->sampled = 0; /* a fork child may have caught another thread between a block and its count */
	leave();
}
