/* SPDX-License-Identifier: MIT */
#include "slab/mosaic.h"

#include <string.h>

#include "base/bits.h"
#include "os/lock.h"
#include "slab/remote.h"
#include "space/meta.h"

/* `unused` is under `lock`. */
static struct {
	struct lock lock;
	struct list unused;
} mosaics;

struct lock *mosaic_lock(void) {
	return &mosaics.lock;
}

HAK_FAR void mosaic_reset(void) {
	mosaics.unused.first = NULL;
}

static struct mosaic *new_mosaic(void) {
	lock_acquire(&mosaics.lock);
	struct list_node *n = mosaics.unused.first;
	if (n != NULL)
		list_remove(n);
	lock_release(&mosaics.lock);
	if (n == NULL)
		return meta_alloc(sizeof(struct mosaic));
	struct mosaic *m = LIST_ENTRY(n, struct mosaic, unused);
	memset(m, 0, sizeof *m);
	return m;
}

HAK_NOINLINE HAK_EVERYDAY_SMALL static void put_mosaic(struct mosaic *m) {
	lock_acquire(&mosaics.lock);
	list_push(&mosaics.unused, &m->unused);
	lock_release(&mosaics.lock);
}

void mosaic_close(struct slab *s) {
	struct mosaic *m = slab_mosaic(s);
	/* Relaxed: the slab is ours alone. */
	atomic_store_explicit(&s->mosaic, NULL, memory_order_relaxed);
	put_mosaic(m);
}

/* ---- units ---- */

static unsigned unit_at(const struct slab *s, uintptr_t addr) {
	return (unsigned)((addr - s->base) >> MOSAIC_UNIT_SHIFT);
}

static uintptr_t addr_of(const struct slab *s, unsigned unit) {
	return s->base + ((uintptr_t)unit << MOSAIC_UNIT_SHIFT);
}

static bool is_used(const struct mosaic *m, unsigned unit) {
	return mosaic_uses(m, (uintptr_t)unit << MOSAIC_UNIT_SHIFT);
}

/* The first unit from `from` on that is used; MOSAIC_UNITS: none. */
static unsigned next_used(const struct mosaic *m, unsigned from) {
	for (unsigned w = from / 64; w < MOSAIC_WORDS; w++) {
		uint64_t word = m->used[w];
		if (w == from / 64)
			word &= ~(uint64_t)0 << from % 64;
		if (word != 0)
			return w * 64 + (unsigned)__builtin_ctzll(word);
	}
	return MOSAIC_UNITS;
}

/* Where the hole that ends before `unit` begins. */
static unsigned hole_before(const struct mosaic *m, unsigned unit) {
	while (unit > 0) {
		unsigned w = (unit - 1) / 64;
		uint64_t below = m->used[w] & ~(uint64_t)0 >> (63 - (unit - 1) % 64);
		if (below != 0)
			return w * 64 + ilog2(below) + 1;
		unit = w * 64;
	}
	return 0;
}

static void mark_in_word(struct mosaic *m, unsigned first, unsigned units, bool used) {
	uint64_t mask = ~(uint64_t)0 >> (64 - units) << first % 64, *word = &m->used[first / 64];
	*word = used ? *word | mask : *word & ~mask;
}

static void mark(struct mosaic *m, unsigned first, unsigned units, bool used) {
	if (HAK_LIKELY(units - 1 < 64 - first % 64)) {
		mark_in_word(m, first, units, used);
		return;
	}
	for (unsigned end = first + units, n; first < end; first += n) {
		n = (unsigned)min_size(end - first, 64 - first % 64);
		mark_in_word(m, first, n, used);
	}
}

/* Relaxed, all of these: who has the block saw it made; for others it is a guess. */
static void set_cell(struct mosaic *m, unsigned cell, unsigned value) {
	__atomic_store_n(&m->begins[cell], (uint8_t)value, __ATOMIC_RELAXED);
}
static unsigned get_cell(const struct mosaic *m, unsigned cell) {
	return __atomic_load_n(&m->begins[cell], __ATOMIC_RELAXED);
}
static void set_begin(struct mosaic *m, unsigned unit, unsigned sc) {
	set_cell(m, unit / MOSAIC_CELL_UNITS, sc << 1 | unit % MOSAIC_CELL_UNITS);
}
static_assert(SC_COUNT <= MOSAIC_FREED >> 1 && MOSAIC_CELL_UNITS == 2, "class, unit and mark share a byte");

static void set_freed(struct mosaic *m, unsigned unit) {
	unsigned cell = unit / MOSAIC_CELL_UNITS;
	set_cell(m, cell, get_cell(m, cell) | MOSAIC_FREED);
}

/* The class of the block at `unit`, freed or not; 0: none. */
static unsigned get_any(const struct mosaic *m, unsigned unit) {
	unsigned cell = get_cell(m, unit / MOSAIC_CELL_UNITS);
	return (cell & 1) == unit % MOSAIC_CELL_UNITS ? (cell & ~(unsigned)MOSAIC_FREED) >> 1 : 0;
}
static bool is_freed(const struct mosaic *m, unsigned unit) {
	return (get_cell(m, unit / MOSAIC_CELL_UNITS) & MOSAIC_FREED) != 0;
}

/* Forgets the blocks that were freed where a new one comes to lie. Only who frees a block twice looks there.
   The last cell may tell of the next block, which another thread may be marking. */
static void forget_freed(struct mosaic *m, unsigned first, unsigned units) {
	unsigned cell = first / MOSAIC_CELL_UNITS, last = (first + units) / MOSAIC_CELL_UNITS;
	memset(&m->begins[cell], 0, last - cell);
	if ((first + units) % MOSAIC_CELL_UNITS != 0 && (get_cell(m, last) & (MOSAIC_FREED | 1)) == MOSAIC_FREED)
		set_cell(m, last, 0);
}

/* ---- blocks ---- */

/* Marks the blocks of a list as freed, and adds their number to `*np`. Where the list ends. */
HAK_EVERYDAY_SMALL static uintptr_t *mark_list(const struct slab *s, struct mosaic *m, uintptr_t *link, unsigned *np) {
	unsigned n = 0;
	uintptr_t at;
	/* A block that was written to after its free may lead anywhere, and in a circle. */
	for (; !link_is_end(at = link_decode(*link)) && slab_has_block(s, at) && n < s->carved; n++) {
		set_freed(m, unit_at(s, at));
		link = (uintptr_t *)at;
	}
	*np += n;
	return link;
}

/* Where the blocks of an opened slab are not freed, units are used. */
static void mark_used(const struct slab *s, struct mosaic *m) {
	unsigned units = mosaic_units(s->sc), end = s->carved * units, first;
	for (unsigned unit = 0; unit < end; unit += units) {
		for (first = unit; unit < end && !is_freed(m, unit);)
			unit += units;
		if (unit != first)
			mark(m, first, unit - first, true);
	}
}

HAK_NOINLINE HAK_EVERYDAY_SMALL bool mosaic_fits(struct mosaic *m, unsigned sc) {
	if (!mosaic_may_fit(m, sc))
		return false;
	unsigned units = mosaic_units(sc), align = units & -units;
	for (unsigned end = 1, hole = 0; end <= MOSAIC_UNITS; end++) {
		hole = is_used(m, end - 1) ? 0 : hole + 1;
		if (hole >= units && (end - units) % align == 0)
			return true;
	}
	m->misfits |= (uint64_t)1 << sc;
	return false;
}

HAK_COLD bool mosaic_pays(const struct slab *s, unsigned used, unsigned sc) {
	if (used > s->capacity * 3u / 4 || s->block_size < MOSAIC_MIN_SIZE)
		return false;
	/* Where survivors are strewn at random, a fifth of the free bytes is in holes of three times the mean
	   and more. */
	unsigned holes = (unsigned)GRANULE - used * s->block_size;
	return 3 * holes >= (used + 1) * hak_size_classes[sc].size;
}

HAK_EVERYDAY_SMALL bool mosaic_open(struct slab *s, unsigned sc) {
	if (s->free_count == 0)
		remote_collect(s, false);
	/* With a block on the own list, nobody finds all on the other. Who has the slab in hand, as QUEUED says, may have
	   found that before, and would find the same word again when cells of those blocks are freed. Relaxed: who sets QUEUED
	   from here on finds less than all. */
	if (remote_is_queued(atomic_load_explicit(&s->remote, memory_order_relaxed)))
		return false;
	struct mosaic *m = new_mosaic();
	if (m == NULL)
		return false;
	slab_touch_blocks(s);
	unsigned units = mosaic_units(s->sc);
	for (unsigned i = 0; i < s->carved; i++)
		set_begin(m, i * units, s->sc);
	unsigned own = 0, others = 0;
	uintptr_t *end = mark_list(s, m, &s->free, &own);
	/* Blocks that were left there (remote_unqueue) would stay for ever: nobody looks again. */
	*end = remote_take_list(s);
	mark_list(s, m, end, &others);
	s->free_count += (uint16_t)others;
	s->used -= (uint16_t)others;
	s->left_remote = 0;
	mark_used(s, m);
	m->largest = MOSAIC_UNITS; /* not known, as all of these */
	for (unsigned w = 0; w < MOSAIC_WORDS; w++)
		m->longest[w] = MOSAIC_UNITS;
	if (!mosaic_fits(m, sc)) {
		put_mosaic(m);
		return false;
	}
	s->free = slab_end(s);
	s->free_count = (uint16_t)(MOSAIC_UNITS - s->used * units);
	s->capacity = s->carved;
	s->fresh_is_zero = false;
	slab_use_end(s); /* it is in a hole */
	/* Release: who sees the mosaic sees what begins where. */
	atomic_store_explicit(&s->mosaic, m, memory_order_release);
	return true;
}

/* Cuts blocks out of the hole from `*atp` to `end`, as long as they fit; `*atp` is left behind them. `to`: where the
   array of what was taken begins. */
static unsigned cut_hole(struct slab *s, unsigned sc, unsigned *atp, unsigned end, unsigned max, void **to) {
	struct mosaic *m = slab_mosaic(s);
	unsigned units = mosaic_units(sc), n = *atp < end ? (unsigned)min_size((end - *atp) / units, max) : 0;
	if (n == 0)
		return 0;
	mark(m, *atp, n * units, true);
	forget_freed(m, *atp, n * units);
	for (unsigned i = 0; i < n; i++, *atp += units) {
		set_begin(m, *atp, sc);
		block_set_link(addr_of(s, *atp), hak_secret.mark);
		*--to = (void *)addr_of(s, *atp);
	}
	return n;
}

static uint64_t hole_begins(const struct mosaic *m, unsigned w) {
	uint64_t before = w > 0 ? m->used[w - 1] >> 63 : 1;
	return ~m->used[w] & (m->used[w] << 1 | before);
}

static void note_hole(struct mosaic *m, unsigned first, unsigned units) {
	uint16_t *longest = &m->longest[first / 64];
	*longest = (uint16_t)max_size(*longest, units);
}

/* As mosaic_take, in the holes that begin in one word of `used`. */
static unsigned take_in_word(struct slab *s, unsigned sc, unsigned w, unsigned max, void **to) {
	struct mosaic *m = slab_mosaic(s);
	unsigned units = mosaic_units(sc), align = units & -units, n = 0, longest = 0;
	uint64_t begins = hole_begins(m, w);
	for (; begins != 0 && n < max; begins &= begins - 1) {
		unsigned from = w * 64 + (unsigned)__builtin_ctzll(begins), end = next_used(m, from);
		unsigned first = (unsigned)align_up(from, align), at = first;
		n += cut_hole(s, sc, &at, end, max - n, to - n);
		longest = (unsigned)max_size(longest, at == first ? end - from : first - from);
		if (at == first)
			continue;
		/* The rest of a hole may begin in another word. */
		m->next = (uint8_t)(at / 64 % MOSAIC_WORDS);
		if (at < end && m->next == w)
			longest = (unsigned)max_size(longest, end - at);
		else if (at < end)
			note_hole(m, at, end - at);
	}
	if (begins == 0) /* all were looked at */
		m->longest[w] = (uint16_t)longest;
	return n;
}

static uint16_t longest_hole(const struct mosaic *m) {
	uint16_t longest = 0;
	for (unsigned w = 0; w < MOSAIC_WORDS; w++)
		longest = (uint16_t)max_size(longest, m->longest[w]);
	return longest;
}

unsigned mosaic_take(struct slab *s, unsigned sc, unsigned max, void **array_end) {
	struct mosaic *m = slab_mosaic(s);
	unsigned units = mosaic_units(sc), start = m->next, n = 0;
	for (unsigned i = 0; i < MOSAIC_WORDS && n < max; i++) {
		unsigned w = (start + i) % MOSAIC_WORDS;
		if (m->longest[w] >= units)
			n += take_in_word(s, sc, w, max - n, array_end - n);
	}
	if (n < max) { /* whatever was long enough was looked at */
		m->largest = longest_hole(m);
		m->misfits |= (uint64_t)1 << sc;
	}
	s->free_count -= (uint16_t)(n * units);
	s->used += (uint16_t)n;
	return n;
}

void mosaic_put(struct slab *s, uintptr_t block, unsigned n) {
	struct mosaic *m = slab_mosaic(s);
	unsigned unit = unit_at(s, block), units = mosaic_units(get_any(m, unit));
	unsigned first = unit, end = unit + n * units;
	for (unsigned i = unit; i < end; i += units)
		set_freed(m, i);
	mark(m, unit, end - unit, false);
	s->free_count += (uint16_t)(end - unit);
	s->used -= (uint16_t)n;
	if (unit > 0 && !is_used(m, unit - 1))
		first = hole_before(m, unit);
	if (end < MOSAIC_UNITS && !is_used(m, end))
		end = next_used(m, end);
	unsigned hole = end - first;
	note_hole(m, first, hole);
	m->largest = (uint16_t)max_size(m->largest, hole);
	m->misfits = 0;
	/* Large holes are few: the lowest is used first, where pages are resident. */
	if (units > MOSAIC_MAX_SIZE >> MOSAIC_UNIT_SHIFT && first / 64 < m->next)
		m->next = (uint8_t)(first / 64);
}

HAK_EVERYDAY_SMALL void mosaic_mark_freed(struct slab *s, uintptr_t block) {
	set_freed(slab_mosaic(s), unit_at(s, block));
}

/* The unit at `offset`; MOSAIC_UNITS: none begins there. */
static unsigned unit_of_offset(uintptr_t offset) {
	bool aligned = offset % (1u << MOSAIC_UNIT_SHIFT) == 0;
	return aligned && offset < GRANULE ? (unsigned)(offset >> MOSAIC_UNIT_SHIFT) : MOSAIC_UNITS;
}

unsigned mosaic_class_at(const struct mosaic *m, uintptr_t offset) {
	return offset < GRANULE ? mosaic_class_in(m, offset) : 0;
}

HAK_FAR unsigned mosaic_freed_at(const struct mosaic *m, uintptr_t offset) {
	unsigned unit = unit_of_offset(offset);
	return unit < MOSAIC_UNITS && is_freed(m, unit) ? get_any(m, unit) : 0;
}

unsigned mosaic_held_at(const struct mosaic *m, uintptr_t offset) {
	unsigned unit = unit_of_offset(offset);
	return unit < MOSAIC_UNITS && is_used(m, unit) ? get_any(m, unit) : 0;
}

HAK_FAR uintptr_t mosaic_block_at(const struct mosaic *m, uintptr_t offset) {
	for (unsigned unit = (unsigned)(offset >> MOSAIC_UNIT_SHIFT) + 1; unit-- > 0;) {
		uintptr_t begin = (uintptr_t)unit << MOSAIC_UNIT_SHIFT;
		unsigned sc = mosaic_class_in(m, begin);
		if (sc != 0)
			return offset - begin < hak_size_classes[sc].size ? begin : GRANULE;
	}
	return GRANULE;
}

HAK_FAR void mosaic_seal(struct slab *s) {
	struct mosaic *m = slab_mosaic(s);
	unsigned held = 0;
	for (unsigned unit = 0; unit < MOSAIC_UNITS; unit++) {
		if (is_used(m, unit))
			held += get_any(m, unit) != 0;
		else if (get_any(m, unit) != 0) /* else it would look like one that is on its way home */
			set_cell(m, unit / MOSAIC_CELL_UNITS, 0);
	}
	memset(m->used, 0xff, sizeof m->used);
	memset(m->longest, 0, sizeof m->longest);
	m->largest = m->list = 0;
	m->sealed = true;
	s->free_count = 0;
	s->used = (uint16_t)held;
}
