/* SPDX-License-Identifier: MIT */
#include "slab/slab.h"

#include "base/bits.h"
#include "base/probe.h"
#include "base/settings.h"
#include "os/lock.h"
#include "os/os.h"
#include "slab/mosaic.h"
#include "space/meta.h"
#include "space/pagemap.h"
#include "space/purge.h"

HAK_AT_START struct secrets hak_secret;

/* Under `lock`: descriptors not in use, and all chunks ever made. */
static struct {
	struct lock lock;
	struct list free;
	struct slab_chunk *chunks;
	unsigned made;   /* descriptors of the first chunk that were handed out at least once */
	uint32_t number; /* descriptors made */
} slabs;

struct slab_chunk *const *slab_chunks(void) {
	return &slabs.chunks;
}

struct lock *slab_lock(void) {
	return &slabs.lock;
}

/* The topmost byte is 0x80 to 0x9f and the next one below 0x80, so that no link looks like a
   pointer, a small number of either sign, a floating-point number that is not next to nothing, ASCII, UTF-8, or one
   byte repeated. That one is odd, because a mark begins with it: a string's end that is written too far is seen. */
HAK_EVERYDAY void key_init(const uint64_t random[2]) {
	uint64_t k = random[0] ^ (random[1] << 7 | random[1] >> 57);
	hak_secret.key = (uintptr_t)((k & 0x1f7fffffffffffff) | 0x8001000000000001);
	uint64_t mark = (random[0] ^ random[1] >> 32) * 0x9e3779b97f4a7c15;
	hak_secret.mark = (hak_secret.key & 0xffff000000000000) | (mark >> 16 & 0xffffffff0000) | hak_secret.key >> 48;
}

HAK_EVERYDAY static struct slab *take_descriptor_locked(void) {
	struct list_node *n = slabs.free.first;
	if (n != NULL) {
		list_remove(n);
		return LIST_ENTRY(n, struct slab, all);
	}
	if (slabs.chunks == NULL || slabs.made == CHUNK_SLABS) {
		struct slab_chunk *c = meta_alloc(sizeof *c);
		if (c == NULL)
			return NULL;
		c->next = slabs.chunks;
		/* Release: who walks the chunks without the lock sees the link. */
		__atomic_store_n(&slabs.chunks, c, __ATOMIC_RELEASE);
		slabs.made = 0;
	}
	struct slab *s = &slabs.chunks->slab[slabs.made++];
	s->number = slabs.number++;
	return s;
}

HAK_EVERYDAY static unsigned take_descriptors(struct slab **slab, unsigned most) {
	unsigned n = 0;
	lock_acquire(&slabs.lock);
	for (; n < most && (slab[n] = take_descriptor_locked()) != NULL; n++)
		slab[n]->in_use = true;
	lock_release(&slabs.lock);
	return n;
}

HAK_EVERYDAY static void put_descriptors(struct slab **slab, unsigned n) {
	if (n == 0)
		return;
	lock_acquire(&slabs.lock);
	for (unsigned i = 0; i < n; i++) {
		slab[i]->in_use = false;
		list_push(&slabs.free, &slab[i]->all);
	}
	lock_release(&slabs.lock);
}

/* Level 3 of HAKMEM_SECURE: between two slabs lies a page that nobody can touch. */
static bool take_guard(void *base) {
	size_t page = os_facts.page_size;
	if (!space_allows_guard() || page > GRANULE / 8 || !os_protect(base, page, false))
		return false;
	space_count_guards(1);
	return true;
}

/* False: the page stays inaccessible, and so must the slab's addresses be lost. */
static bool drop_guard(const struct slab *s) {
	if (!s->has_guard)
		return true;
	if (!os_protect((void *)s->base, os_facts.page_size, true)) {
		os_purge((void *)s->base, GRANULE);
		return false;
	}
	space_count_guards(-1);
	return true;
}

static void harden(struct slab *s) {
	s->has_canaries = hak_settings.secure >= 2;
	s->has_guard = take_guard((void *)s->base);
	s->reserved = s->has_canaries;
	if (s->has_guard)
		s->reserved = (uint16_t)((os_facts.page_size + s->block_size - 1) / s->block_size);
	s->carved = s->reserved;
}

HAK_NOINLINE HAK_EVERYDAY void slab_populate(struct slab *s) {
	if (s->fresh_is_zero && !s->has_guard && hak_settings.purge_delay_ms > 0 && !purge_is_discreet() &&
	    os_populate((void *)s->base, align_up((size_t)s->capacity * s->block_size, os_facts.page_size)))
		s->touched = touched_note(GRANULE);
}

/* Empty, of that class, in a granule that is there. */
HAK_EVERYDAY HAK_NOINLINE static void set_up(struct slab *s, unsigned sc) {
	const struct size_class *c = &hak_size_classes[sc];
	s->free = slab_end(s);
	s->free_count = s->used = s->carved = s->left_remote = 0;
	s->is_cold = false;
	s->capacity = c->capacity;
	s->block_size = c->size;
	s->sc = (uint8_t)sc;
	harden(s);
	HAK_PROBE2(slab_get, s->base, sc);
	/* Relaxed, here and below: nobody knows this slab yet. */
	atomic_store_explicit(&s->remote, 0, memory_order_relaxed);
}

HAK_EVERYDAY static void begin(struct slab *s, unsigned sc, const struct span *span) {
	s->base = (uintptr_t)span->base;
	s->ss = span->ss;
	s->fresh_is_zero = span->zero;
	s->touched = span->zero ? 0 : *superslab_touched(span->ss, s->base); /* mapped alone it is zero */
	s->was_lately = span->lately;
	s->is_end_idle = span->idle != 0;
	s->is_end_slack = span->slack != 0;
	set_up(s, sc);
	atomic_store_explicit(&s->owner, NULL, memory_order_relaxed);
	atomic_store_explicit(&s->mosaic, NULL, memory_order_relaxed);
}

HAK_EVERYDAY unsigned slab_new_several(unsigned sc, bool is_first, struct slab **slab, unsigned most) {
	const struct size_class *c = &hak_size_classes[sc];
	struct span span[SPAN_BATCH];
	unsigned described = take_descriptors(slab, most);
	if (described == 0)
		return 0;
	/* Mid blocks leave pages unused: their classes are up to three pages apart. */
	bool is_roomy = is_first || c->size > SC_SMALL_MAX;
	unsigned n = span_alloc_several(is_roomy ? SPAN_ROOMY : SPAN_DENSE, c->size, span, described);
	put_descriptors(slab + n, described - n);
	for (unsigned i = 0; i < n; i++)
		begin(slab[i], sc, &span[i]);
	return n;
}

HAK_COLD bool slab_is_whole(unsigned sc) {
	return span_idle(1, hak_size_classes[sc].size) == 0;
}

static size_t carved_bytes(const struct slab *s) {
	return s->carved * (size_t)s->block_size;
}

HAK_EVERYDAY static size_t all_touched(const struct slab *s) {
	return max_size(carved_bytes(s), touched_bytes(s->touched));
}

HAK_COLD unsigned slab_touched_units(const struct slab *s) {
	return (unsigned)((all_touched(s) + TOUCHED_UNIT - 1) / TOUCHED_UNIT);
}

HAK_COLD void slab_convert(struct slab *s, unsigned sc) {
	s->touched = touched_note(all_touched(s));
	s->fresh_is_zero &= s->carved == 0;
	set_up(s, sc);
}

HAK_EVERYDAY static struct span span_of(const struct slab *s) {
	return (struct span){ .base = (void *)s->base, .granules = 1, .ss = s->ss,
	                      .idle = s->is_end_idle ? span_idle(1, s->block_size) : 0,
	                      .slack = s->is_end_slack ? span_idle(1, s->block_size) : 0 };
}

/* Prefetches in such numbers get dropped. Blocks in use are read too, so what is read says nothing. But those of whole
   pages the program may have made inaccessible. */
HAK_EVERYDAY HAK_GUESS void slab_touch_blocks(const struct slab *s) {
	if (s->block_size >= os_facts.page_size)
		return;
	const struct slab_blocks blocks = slab_blocks(s);
	size_t step = max_size(s->block_size, HAK_CACHE_LINE);
	for (size_t at = 0; at < blocks.bytes; at += step)
		(void)*(const volatile uintptr_t *)(blocks.first + at);
}

HAK_EVERYDAY void slab_use_end(struct slab *s) {
	struct span span = span_of(s);
	span_use(&span, GRANULE);
	s->is_end_idle = s->is_end_slack = false;
}

/* What it leaves. How many bytes of that were touched. */
HAK_EVERYDAY static size_t leave_span(const struct slab *s, struct span *span) {
	HAK_PROBE2(slab_release, s->base, s->sc);
	*span = span_of(s);
	span->last_size = slab_mosaic(s) != NULL ? 0 : s->block_size;
	if (s->ss != NULL)
		*superslab_touched(s->ss, s->base) = touched_note(all_touched(s));
	/* What was never carved is as clean as it was at the start. */
	return s->fresh_is_zero ? carved_bytes(s) : GRANULE - span->idle;
}

HAK_COLD void slab_free_granule(const struct slab *s) {
	struct span span;
	size_t touched = leave_span(s, &span);
	pagemap_set_tag(s->base, 1, TAG_FREE);
	span_free(&span, touched);
}

/* All of deleting that takes no lock. False: its granule is lost. */
HAK_EVERYDAY HAK_NOINLINE static bool finish(struct slab *s, struct span *span, size_t *touchedp) {
	bool mosaic = slab_mosaic(s) != NULL;
	*touchedp = leave_span(s, span);
	/* A descriptor that is handed out anew must not look like this slab before it is filled in: a
	   fork child goes by what it says. Relaxed: the slab is ours alone. */
	atomic_store_explicit(&s->remote, 0, memory_order_relaxed);
	atomic_store_explicit(&s->owner, NULL, memory_order_relaxed);
	if (mosaic)
		mosaic_close(s);
	return drop_guard(s);
}

HAK_EVERYDAY void slab_delete_all(struct slab *list) {
	while (list != NULL) {
		struct slab *slab[SPAN_BATCH];
		struct span span[SPAN_BATCH];
		size_t touched[SPAN_BATCH];
		unsigned n = 0, spans = 0;
		/* SuperSlabs may have been switched off after the first were made. */
		for (const struct slab *first = list; list != NULL && n < SPAN_BATCH && !list->ss == !first->ss; n++) {
			slab[n] = list;
			list = list->inbox_next;
			spans += finish(slab[n], &span[spans], &touched[spans]);
		}
		put_descriptors(slab, n);
		for (unsigned i = 0; i < spans; i++) /* before their descriptors become numbers: see pagemap_set */
			pagemap_set_tag((uintptr_t)span[i].base, 1, TAG_FREE);
		if (spans != 0)
			span_free_several(span, touched, spans);
	}
}

void slab_delete(struct slab *s) {
	s->inbox_next = NULL;
	slab_delete_all(s);
}

HAK_COLD void slab_forget(struct slab *s) {
	put_descriptors(&s, 1);
}

HAK_EVERYDAY void slab_set_tag(struct slab *s, uint32_t owner_tag) {
	uint32_t code = slab_mosaic(s) != NULL ? TAG_MOSAIC : (uint32_t)s->sc << SC_CODE_SHIFT;
	pagemap_set(s->base, 1, owner_tag | code, s);
}

/* Numbers them anew as well: the last may not have had its number yet. */
HAK_COLD void slab_rebuild(void) {
	unsigned made = slabs.made;
	uint32_t number = made;
	slabs.free.first = NULL;
	for (const struct slab_chunk *c = slabs.chunks; c != NULL && c->next != NULL; c = c->next)
		number += CHUNK_SLABS;
	slabs.number = number;
	for (struct slab_chunk *c = slabs.chunks; c != NULL; c = c->next, made = CHUNK_SLABS) {
		number -= made;
		for (unsigned i = 0; i < made; i++) {
			c->slab[i].number = number + i;
			if (!c->slab[i].in_use)
				list_push(&slabs.free, &c->slab[i].all);
		}
	}
}

HAK_COLD void slab_for_each(void (*visit)(struct slab *s, void *arg), void *arg) {
	unsigned made = slabs.made;
	for (struct slab_chunk *c = slabs.chunks; c != NULL; c = c->next, made = CHUNK_SLABS)
		for (unsigned i = 0; i < made; i++)
			if (c->slab[i].in_use)
				visit(&c->slab[i], arg);
}
