/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <sched.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "common.h"
#include "front/bins.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/purge.h"

struct slab *fixture_slab(unsigned sc, struct inbox *owner, unsigned carved)
{
	struct slab *s = slab_new(sc, false);

	CHECK(s != NULL);
	atomic_store(&s->owner, owner);
	slab_set_tag(s, owner != NULL ? FIXTURE_TAG : 0);
	s->carved = s->used = (uint16_t)carved;
	return s;
}

uintptr_t fixture_block(const struct slab *s, unsigned index)
{
	return s->base + (uintptr_t)index * s->block_size;
}

void fixture_post(struct slab *s, unsigned first, unsigned count)
{
	struct batch b = {fixture_block(s, first), fixture_block(s, first + count - 1), count};

	for (unsigned i = first; i + 1 < first + count; i++)
		block_set_link(fixture_block(s, i), link_encode(fixture_block(s, i + 1)));
	block_set_link(b.last, slab_end(s));
	remote_post(s, &b);
}

unsigned fixture_count(const struct slab *s, uintptr_t link)
{
	unsigned n = 0;

	for (uintptr_t at = link_decode(link); !link_is_end(at); at = link_decode(block_link(at)), n++)
		CHECK(slab_has_block(s, at) && n <= s->capacity);
	return n;
}

void fixture_free_remotely(struct heap *h, uintptr_t block)
{
	struct slab *s = fixture_slab_of(block);

	if (!outbox_add(&h->outbox, s, block))
		remote_post_list(s, block, block, 1);
}

struct slab *fixture_slab_of(uintptr_t block)
{
	return pagemap_lookup(block).desc;
}

uintptr_t fixture_take(struct heap *h, unsigned sc)
{
	bool zero;
	void *p = bin_take(h, sc);

	if (p == NULL)
		p = heap_refill(h, sc, &zero);
	CHECK(p != NULL);
	return (uintptr_t)p;
}

void fixture_send_home(struct heap *h, uintptr_t block)
{
	void *entry = (void *)block;

	block_set_link(block, hak_secret.mark);
	heap_send_home(h, slab_class_at(fixture_slab_of(block), block), &entry, &entry + 1);
}

void fixture_free(struct heap *h, unsigned sc, uintptr_t block)
{
	if (bin_push(&h->bins[sc], (void *)block))
		return;
	assert_true(bin_make_room(h, sc));
	assert_true(bin_push(&h->bins[sc], (void *)block));
}

void fixture_write(struct message *m, struct heap *to, const uintptr_t *blocks, unsigned count)
{
	message_open(m, &to->inbox, to->tag);
	for (unsigned i = 0; i < count; i++) {
		const struct slab *s = fixture_slab_of(blocks[i]);
		message_add(m, blocks[i], s->sc, s->block_size);
	}
}

void fixture_send(struct message *m, struct heap *to, const uintptr_t *blocks, unsigned count)
{
	fixture_write(m, to, blocks, count);
	assert_true(message_post(m));
}

uint64_t fixture_word(const struct slab *s)
{
	return atomic_load(&s->remote);
}

uint32_t fixture_owner(const struct slab *s)
{
	return pagemap_tag(s->base) & ~TAG_CODE_MASK;
}

static bool is_resident(void *page)
{
	unsigned char resident = 0;

	CHECK(mincore(page, os_facts.page_size, &resident) == 0);
	return (resident & 1) != 0;
}

bool fixture_is_whole(const struct slab *s)
{
	size_t page = os_facts.page_size;
	uintptr_t end = align_up(s->base + (size_t)s->capacity * s->block_size, page);

	return is_resident((void *)(end - page));
}

/* As many SuperSlabs, and one more. */
static struct span heap_spans[PURGE_HEAP / SUPERSLAB + 1];
enum { HEAP_SPANS = sizeof(heap_spans) / sizeof(heap_spans[0]) };

void fixture_enlarge_heap(void)
{
	for (unsigned i = 0; i < HEAP_SPANS; i++)
		assert_true(span_alloc(SUPERSLAB_GRANULES, SPAN_ROOMY, 0, &heap_spans[i]));
}

void fixture_reduce_heap(void)
{
	for (unsigned i = 0; i < HEAP_SPANS; i++)
		span_free(&heap_spans[i], GRANULE);
}

bool fixture_can_populate(void)
{
	size_t page = os_facts.page_size;
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	/* An emulator may say that it did, and not have. */
	bool can = os_populate(p, page) && is_resident(p);
	CHECK(munmap(p, page) == 0);
	return can;
}

enum { ROUNDS = 1000 }; /* of waiting make it contended, at most */
static _Atomic unsigned asked, had; /* ROUNDS: no more */

/* Threads 0 and 1: that one asks for the lock while this one has it. */
static void wait_for_the_lock(unsigned index)
{
	for (unsigned i = 0; index == 0 && i < ROUNDS - 1 && !space_is_contended(); i++) {
		space_acquire();
		atomic_store(&asked, i + 1);
		sleep_ms(1);
		lock_release(space_lock());
		while (atomic_load(&had) == i)
			sched_yield();
	}
	if (index == 0)
		atomic_store(&asked, ROUNDS);
	while (index == 1 && atomic_load(&asked) != ROUNDS) {
		if (atomic_load(&asked) == atomic_load(&had)) {
			sched_yield();
			continue;
		}
		space_acquire();
		lock_release(space_lock());
		atomic_fetch_add(&had, 1);
	}
}

void fixture_contend(void)
{
	atomic_store(&asked, 0);
	atomic_store(&had, 0);
	run_threads(2, wait_for_the_lock);
}
