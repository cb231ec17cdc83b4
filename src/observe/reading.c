/* SPDX-License-Identifier: MIT */
#include "observe/reading.h"

#include <string.h>

#include "base/bits.h"
#include "base/text.h"

enum {
	LIST_MOST = 1 << 28,  /* a longer list has become a ring under our eyes */
	NUMBER_MOST = 1 << 12, /* of what there is an array of */
	SHIFT_MOST = 32,
};

/* ---- memory ---- */

static bool get_bytes(const struct reading *r, uint64_t from, void *to, size_t size) {
	return from != 0 && r->copy(r->arg, from, to, size);
}

static uint64_t get_word(const struct reading *r, uint64_t from) {
	uint64_t word = 0;
	return get_bytes(r, from, &word, sizeof word) ? word : 0;
}

static bool get_copy(const struct reading *r, struct reading_copy *c, uint64_t address, size_t size) {
	return size <= sizeof c->bytes && size != 0 && get_bytes(r, address, c->bytes, size);
}

static unsigned offset_of(const struct reading *r, enum descriptor_field field) {
	return r->field[field] >> 16;
}

static uint64_t get_field(const struct reading *r, const void *at, enum descriptor_field field) {
	uint64_t value = 0;
	unsigned size = r->field[field] & 0xffff;
	memcpy(&value, (const char *)at + offset_of(r, field), size < sizeof value ? size : sizeof value);
	return value;
}
#define GET(at, id) get_field(r, at, F_##id)

static const char *place(const void *at, size_t offset) {
	return (const char *)at + offset;
}

/* ---- the descriptor ---- */

/* Takes what this and that version both have; the rest stays 0. */
static bool get_table(const struct reading *r, uint64_t *fromp, uint32_t have, uint32_t *to, uint32_t want) {
	uint32_t n = have < want ? have : want;
	bool ok = n == 0 || get_bytes(r, *fromp, to, n * sizeof *to);
	*fromp += (uint64_t)have * sizeof *to;
	return ok;
}

static bool get_layout(struct reading *r, uint64_t from) {
	uint32_t count[DESCRIPTOR_COUNTS];
	if (!get_bytes(r, from, count, sizeof count))
		return false;
	from += sizeof count;
	return get_table(r, &from, count[0], r->field, DESCRIPTOR_FIELDS) &&
		get_table(r, &from, count[1], r->size, DESCRIPTOR_SIZES) &&
		get_table(r, &from, count[2], r->number, DESCRIPTOR_NUMBERS);
}

/* ---- is it a layout? What is read may be nothing of ours, or be made to harm us. ---- */

#define SIZE(id, structure) SIZE_OF_##structure = S_##id,
enum {
#include "observe/descriptor.def"
};
#undef SIZE

/* Of each field the structure it is in. */
static const uint8_t structure_of[DESCRIPTOR_FIELDS] = {
#define FIELD(id, structure, member) [F_##id] = SIZE_OF_##structure,
#include "observe/descriptor.def"
#undef FIELD
};

static bool fits(const struct reading *r, enum descriptor_field array, uint64_t count, uint64_t size) {
	return count <= NUMBER_MOST && count * size <= (r->field[array] & 0xffff);
}

/* Fields lie in their structures, structures in a copy, arrays in their fields; what is counted is countable. */
static bool is_layout(const struct reading *r) {
	for (unsigned i = 0; i < DESCRIPTOR_FIELDS; i++)
		if ((r->field[i] & 0xffff) != 0 && offset_of(r, i) + (r->field[i] & 0xffff) > r->size[structure_of[i]])
			return false;
	for (unsigned i = 0; i < DESCRIPTOR_FIELDS; i++)
		if ((r->field[i] & 0xffff) == 0 && r->field[i] != 0)
			return false;
	for (unsigned i = 0; i < DESCRIPTOR_SIZES; i++)
		if (r->size[i] > READING_COPY_MAX && i != S_MOSAIC)
			return false;
	const uint32_t *n = r->number;
	return r->size[S_SLAB] != 0 && r->size[S_LARGE] != 0 && n[N_GRANULE_SHIFT] <= SHIFT_MOST &&
		n[N_SETTINGS] <= NUMBER_MOST && n[N_CHUNK_SLABS] <= NUMBER_MOST && n[N_CHUNK_LARGES] <= NUMBER_MOST &&
		n[N_SUPERSLAB_GRANULES] <= NUMBER_MOST && n[N_SLOTS] <= NUMBER_MOST &&
		n[N_OUTBOX_CHUNK] <= NUMBER_MOST && n[N_MESSAGE_CLASS_SHIFT] < 64 &&
		fits(r, F_HEAP_CLASSES, n[N_CLASSES], r->size[S_HEAP_CLASS]) &&
		fits(r, F_HEAP_WARM, n[N_BANDS], r->size[S_WARM]) &&
		fits(r, F_HEAP_OUTBOX, n[N_SLOTS], r->size[S_SLOT]) &&
		fits(r, F_OPS_ALLOCS, n[N_CLASSES], 8) && fits(r, F_OPS_FREES, n[N_CLASSES], 8) &&
		(r->size[S_QUARANTINED] == 0 || fits(r, F_QUARANTINED_BLOCKS, n[N_CLASSES], 2));
}

static uint64_t target(uint64_t address, size_t member, int64_t offset) {
	return address + member + (uint64_t)offset;
}
#define TARGET(d, address, member) target(address, offsetof(struct descriptor, member), (d).member)

static bool is_version(const char *v) {
	for (; *v != '\0'; v++)
		if ((*v < '0' || *v > '9') && *v != '.' && *v != '-' && (*v < 'a' || *v > 'z'))
			return false;
	return true;
}

enum reading_result reading_open(struct reading *r, uint64_t address) {
	struct descriptor d;
	memset(r->root, 0, sizeof *r - offsetof(struct reading, root));
	if (!get_bytes(r, address, &d, sizeof d))
		return READING_GONE;
	bool known = get_bytes(r, TARGET(d, address, to_version), r->version, sizeof r->version - 1);
	if (!known || !is_version(r->version))
		r->version[0] = '\0';
	if (d.format != DESCRIPTOR_FORMAT)
		return READING_OTHER_VERSION;
	size_t roots = d.roots < DESCRIPTOR_ROOTS ? d.roots : DESCRIPTOR_ROOTS;
	if (!get_bytes(r, TARGET(d, address, to_roots), r->root, roots * sizeof *r->root) ||
	    !get_layout(r, TARGET(d, address, to_layout)))
		return READING_GONE;
	if (!is_layout(r))
		return READING_OTHER_VERSION;
	return r->root[ROOT_HEAPS] != 0 ? READING_OK : READING_NOT_STARTED;
}

uint64_t reading_class_size(const struct reading *r, unsigned sc) {
	uint32_t size = 0;
	if (sc >= r->number[N_CLASSES])
		return 0;
	uint64_t at = r->root[ROOT_CLASSES] + (uint64_t)sc * r->size[S_SIZE_CLASS];
	get_bytes(r, at + offset_of(r, F_SC_SIZE), &size, sizeof size);
	return size;
}

/* ---- slabs ---- */

struct slab_reader {
	const struct reading *r;
	struct hak_stats *stats;  /* to add to, or NULL: */
	const uint64_t *class_size;
	reading_slab_fn *visit;   /* or NULL */
	void *arg;
	uint64_t *live;           /* blocks not at home per class, caches included; or NULL */
};

/* Blocks of a slab that are neither on its own list nor on its remote list. */
static uint64_t blocks_out(const struct reading *r, const void *slab) {
	uint64_t remote = GET(slab, SLAB_REMOTE), used = GET(slab, SLAB_USED), n = remote >> 48;
	if ((remote & r->number[N_REMOTE_PUBLISHED]) != 0)
		return n < used ? n : used; /* counts what is out, see slab/remote.h */
	return n < used ? used - n : 0;
}

/* Blocks of each class in a mosaic, but for those freed. Bytes. */
static uint64_t read_mosaic(struct slab_reader *sr, uint64_t at) {
	const struct reading *r = sr->r;
	uint8_t *begins = (uint8_t *)r->room->inner.bytes;
	size_t cells = r->field[F_MOSAIC_BEGINS] & 0xffff;
	uint64_t bytes = 0;
	if (cells > READING_COPY_MAX || !get_bytes(r, at + offset_of(r, F_MOSAIC_BEGINS), begins, cells))
		return 0;
	for (size_t i = 0; i < cells; i++) {
		unsigned sc = begins[i] >> 1; /* of a freed block: no class's number, for the top bit is set */
		if (sc == 0 || sc >= HAK_STATS_CLASSES)
			continue;
		if (sr->live != NULL)
			sr->live[sc]++;
		bytes += sr->stats != NULL ? sr->stats->by_class[sc].size : sr->class_size[sc];
	}
	return bytes;
}

static void add_slab(struct slab_reader *sr, const void *slab, const struct reading_slab *s) {
	struct hak_stats_class *c = &sr->stats->by_class[s->sc];
	const struct reading *r = sr->r;
	uint64_t used = GET(slab, SLAB_USED);
	sr->stats->slabs++;
	c->slabs++;
	if (s->sc == 0) {
		sr->stats->mosaics++;
		sr->stats->mosaic_free += s->capacity > s->live ? s->capacity - s->live : 0;
		return;
	}
	sr->live[s->sc] += s->live;
	c->cached += used > s->live ? used - s->live : 0;
	uint64_t carved = GET(slab, SLAB_CARVED), at_home = s->capacity > used ? s->capacity - used : 0;
	uint64_t fresh = GET(slab, SLAB_IS_ZERO) != 0 && s->capacity > carved ? s->capacity - carved : 0;
	fresh = fresh < at_home ? fresh : at_home;
	c->fresh += fresh;
	c->free += at_home - fresh;
}

static void read_slab(struct slab_reader *sr, const void *slab) {
	const struct reading *r = sr->r;
	struct reading_slab s = { .base = GET(slab, SLAB_BASE), .sc = (unsigned)GET(slab, SLAB_CLASS),
	                          .capacity = GET(slab, SLAB_CAPACITY),
	                          .is_orphan = GET(slab, SLAB_OWNER) == 0 };
	if (GET(slab, SLAB_IN_USE) == 0 || s.sc == 0 || s.sc >= HAK_STATS_CLASSES)
		return;
	if ((GET(slab, SLAB_REMOTE) & r->number[N_REMOTE_EMPTIED]) != 0) /* its granule is another's, or free */
		return;
	uint64_t mosaic = GET(slab, SLAB_MOSAIC);
	s.live = blocks_out(r, slab);
	if (mosaic != 0) {
		s.live = read_mosaic(sr, mosaic);
		s.capacity = (uint64_t)1 << r->number[N_GRANULE_SHIFT];
		s.sc = 0;
	}
	if (sr->stats != NULL)
		add_slab(sr, slab, &s);
	if (sr->visit != NULL)
		sr->visit(sr->arg, &s);
}

/* Reads a list of chunks, each `count` structures of `size` bytes, the first at `first`. */
static enum reading_result read_chunks(const struct reading *r, uint64_t root, size_t chunk_size,
                                       enum descriptor_field next, size_t first, size_t size, size_t count,
                                       void (*each)(void *arg, const void *at), void *arg) {
	struct reading_copy *c = &r->room->outer;
	uint64_t at = get_word(r, root);
	for (size_t n = 0; at != 0 && n < LIST_MOST; n++) {
		if (first + count * size > chunk_size || !get_copy(r, c, at, chunk_size))
			return READING_GONE;
		for (size_t i = 0; i < count; i++)
			each(arg, place(c->bytes, first + i * size));
		at = get_field(r, c->bytes, next);
	}
	return READING_OK;
}

static void each_slab(void *arg, const void *at) {
	read_slab(arg, at);
}

static enum reading_result read_slabs(struct slab_reader *sr) {
	const struct reading *r = sr->r;
	return read_chunks(r, r->root[ROOT_SLABS], r->size[S_CHUNK], F_CHUNK_NEXT, offset_of(r, F_CHUNK_FIRST),
	                   r->size[S_SLAB], r->number[N_CHUNK_SLABS], each_slab, sr);
}

enum reading_result reading_slabs(const struct reading *r, reading_slab_fn *visit, void *arg) {
	uint64_t class_size[HAK_STATS_CLASSES];
	for (unsigned sc = 0; sc < HAK_STATS_CLASSES; sc++)
		class_size[sc] = reading_class_size(r, sc);
	struct slab_reader sr = { .r = r, .class_size = class_size, .visit = visit, .arg = arg };
	return read_slabs(&sr);
}

/* ---- large blocks, SuperSlabs ---- */

struct large_reader {
	const struct reading *r;
	reading_large_fn *visit;
	void *arg;
};

static void each_large(void *arg, const void *at) {
	const struct large_reader *lr = arg;
	const struct reading *r = lr->r;
	struct reading_large l = {
		.base = GET(at, LARGE_BASE), .granules = GET(at, LARGE_GRANULES), .usable = GET(at, LARGE_USABLE),
		.unused = GET(at, LARGE_UNUSED), .is_live = GET(at, LARGE_STATE) == r->number[N_LARGE_LIVE],
		.in_superslab = GET(at, LARGE_SUPERSLAB) != 0,
		.in_pocket = GET(at, LARGE_KEPT) == r->number[N_KEPT_POCKET],
	};
	if (l.is_live || GET(at, LARGE_KEPT) != 0)
		lr->visit(lr->arg, &l);
}

enum reading_result reading_larges(const struct reading *r, reading_large_fn *visit, void *arg) {
	struct large_reader lr = { r, visit, arg };
	return read_chunks(r, r->root[ROOT_LARGES], r->size[S_LARGE_CHUNK], F_LARGE_CHUNK_NEXT,
	                   offset_of(r, F_LARGE_CHUNK_FIRST), r->size[S_LARGE], r->number[N_CHUNK_LARGES],
	                   each_large, &lr);
}

enum reading_result reading_superslabs(const struct reading *r, reading_superslab_fn *visit, void *arg) {
	struct reading_copy *c = &r->room->outer;
	uint64_t at = get_word(r, r->root[ROOT_SUPERSLABS]);
	for (size_t n = 0; at != 0 && n < LIST_MOST; n++) {
		if (!get_copy(r, c, at, r->size[S_SUPERSLAB]))
			return READING_GONE;
		struct reading_superslab s = {
			.base = GET(c->bytes, SUPER_BASE), .free = (uint32_t)GET(c->bytes, SUPER_FREE),
			.zero = (uint32_t)GET(c->bytes, SUPER_ZERO), .huge = GET(c->bytes, SUPER_HUGE) != 0,
		};
		if (s.base != 0)
			visit(arg, &s);
		at = GET(c->bytes, SUPER_NEXT);
	}
	return READING_OK;
}

/* ---- heaps ---- */

static void add_bins(const struct reading *r, const void *heap, struct hak_stats *st) {
	struct reading_room *room = r->room;
	const void *bins = room->inner.bytes;
	size_t classes = r->number[N_CLASSES], size = r->size[S_BIN];
	bool have = !r->without_bins && get_copy(r, &room->inner, GET(heap, HEAP_BINS), classes * size);
	st->is_partial |= !have && GET(heap, HEAP_BINS) != 0;
	for (size_t sc = 1; sc < classes && sc < HAK_STATS_CLASSES; sc++) {
		const char *hc = place(heap, offset_of(r, F_HEAP_CLASSES) + sc * r->size[S_HEAP_CLASS]);
		room->samples[sc] += GET(hc, CLASS_SAMPLES);
		room->waste[sc] += GET(hc, CLASS_WASTE);
		room->cached[sc] += GET(hc, CLASS_LISTED);
		if (!have)
			continue;
		const char *bin = place(bins, sc * size);
		/* BIN_DRAINED is more. An older library does not say: 0 of either. */
		bool is_drained = GET(hc, CLASS_OVERRAN) > r->number[N_BIN_BURST];
		uint64_t top = GET(bin, BIN_TOP), all = is_drained ? r->number[N_BIN_BURST_ROOM] : GET(hc, CLASS_CAPACITY);
		uint64_t free_entries = (uint32_t)(top - GET(bin, BIN_FLOOR)) / sizeof(void *);
		/* It may be changing, or not in use. */
		room->cached[sc] += top != 0 && free_entries <= all ? all - free_entries : 0;
	}
}

static void add_outbox(const struct reading *r, const void *heap) {
	struct reading_copy *slab = &r->room->inner;
	for (size_t i = 0; i < r->number[N_SLOTS]; i++) {
		const char *slot = place(heap, offset_of(r, F_HEAP_OUTBOX) + i * r->size[S_SLOT]);
		uint64_t at = GET(slot, SLOT_SLAB);
		if (at == 0 || !get_copy(r, slab, at, r->size[S_SLAB]))
			continue;
		uint64_t sc = GET(slab->bytes, SLAB_CLASS);
		/* Those of a mosaic are marked as freed. */
		if (sc < HAK_STATS_CLASSES && GET(slab->bytes, SLAB_MOSAIC) == 0)
			r->room->cached[sc] += GET(slot, SLOT_COUNT);
	}
}

/* What is in a message has not come home to its owner. */
static void add_message(const struct reading *r, const void *message) {
	const char *blocks = place(message, offset_of(r, F_MESSAGE_BLOCKS));
	size_t room = (r->field[F_MESSAGE_BLOCKS] & 0xffff) / sizeof(uint64_t);
	if (GET(message, MESSAGE_STATE) == r->number[N_MESSAGE_FREE])
		return;
	for (size_t i = 0; i < GET(message, MESSAGE_COUNT) && i < room; i++) {
		uint64_t block;
		memcpy(&block, blocks + i * sizeof block, sizeof block);
		uint64_t sc = block >> r->number[N_MESSAGE_CLASS_SHIFT];
		if (sc < HAK_STATS_CLASSES)
			r->room->cached[sc]++;
	}
}

static void add_messages(const struct reading *r, const void *heap) {
	struct reading_copy *message = &r->room->inner;
	const char *chunks = place(heap, offset_of(r, F_HEAP_CHUNKS));
	size_t n = (r->field[F_HEAP_CHUNKS] & 0xffff) / sizeof(uint64_t);
	for (size_t i = 0; i < n * r->number[N_OUTBOX_CHUNK]; i++) {
		uint64_t chunk;
		memcpy(&chunk, chunks + i / r->number[N_OUTBOX_CHUNK] * sizeof chunk, sizeof chunk);
		uint64_t at = chunk + i % r->number[N_OUTBOX_CHUNK] * r->size[S_MESSAGE];
		if (chunk == 0 || !get_copy(r, message, at, r->size[S_MESSAGE]))
			return;
		add_message(r, message->bytes);
	}
}

static void add_quarantine(const struct reading *r, uint64_t at) {
	struct reading_copy *quarantined = &r->room->inner;
	if (at == 0 || !get_copy(r, quarantined, at, r->size[S_QUARANTINED]))
		return;
	const char *counts = place(quarantined->bytes, offset_of(r, F_QUARANTINED_BLOCKS));
	for (size_t sc = 0; sc < r->number[N_CLASSES] && sc < HAK_STATS_CLASSES; sc++) {
		uint16_t blocks;
		memcpy(&blocks, counts + sc * sizeof blocks, sizeof blocks);
		r->room->cached[sc] += blocks;
	}
}

/* A number that is counted there, and which sum it belongs to. */
struct summand {
	uint16_t field, offset;
};
#define SUMMAND(field, sum) { F_##field, offsetof(struct hak_stats, sum) }

static void add_all(const struct reading *r, const void *at, const struct summand *summand, size_t n,
                    struct hak_stats *st, unsigned shift) {
	for (; n > 0; n--, summand++) {
		char *sum = (char *)st + summand->offset;
		uint64_t value;
		memcpy(&value, sum, sizeof value);
		value += get_field(r, at, summand->field) << shift;
		memcpy(sum, &value, sizeof value);
	}
}
#define ADD_ALL(r, at, summands, st, shift) add_all(r, at, summands, sizeof summands / sizeof *summands, st, shift)

static const struct summand heap_counters[] = {
	SUMMAND(COUNT_MISS, bin_misses),
	SUMMAND(COUNT_OWN, refill_own),
	SUMMAND(COUNT_CARVE, refill_carve),
	SUMMAND(COUNT_READY, refill_ready),
	SUMMAND(COUNT_INBOX, refill_inbox),
	SUMMAND(COUNT_ADOPT, refill_adopt),
	SUMMAND(COUNT_HOLE, refill_hole),
	SUMMAND(COUNT_FRESH, refill_fresh),
	SUMMAND(COUNT_FULL, full_bins),
	SUMMAND(COUNT_HOME, home_blocks),
	SUMMAND(COUNT_REMOTE, remote_blocks),
	SUMMAND(HEAP_POSTS, remote_batches),
	SUMMAND(COUNT_DRAINED, drained_blocks),
	SUMMAND(COUNT_FOREIGN, foreign_frees),
	SUMMAND(COUNT_DELETED, slabs_deleted),
};

static void add_counters(const struct reading *r, const void *heap, struct hak_stats *st) {
	ADD_ALL(r, heap, heap_counters, st, 0);
	for (size_t i = 0; i < r->number[N_BANDS] && i < HAK_STATS_BANDS; i++) {
		const char *warm = place(heap, offset_of(r, F_HEAP_WARM) + i * r->size[S_WARM]);
		st->by_band[i].hits += GET(warm, WARM_HITS);
		st->by_band[i].misses += GET(warm, WARM_MISSES);
		st->by_band[i].prefills += GET(warm, WARM_PREFILLS);
	}
}

static void add_ops(const struct reading *r, uint64_t at, struct hak_stats *st) {
	struct reading_copy *ops = &r->room->inner;
	if (at == 0 || !get_copy(r, ops, at, r->size[S_OPS]))
		return;
	st->has_ops = 1;
	st->requested += GET(ops->bytes, OPS_REQUESTED);
	for (size_t sc = 0; sc < r->number[N_CLASSES] && sc < HAK_STATS_CLASSES; sc++) {
		uint64_t counts[2];
		memcpy(&counts[0], place(ops->bytes, offset_of(r, F_OPS_ALLOCS) + sc * 8), 8);
		memcpy(&counts[1], place(ops->bytes, offset_of(r, F_OPS_FREES) + sc * 8), 8);
		st->by_class[sc].allocs += counts[0];
		st->by_class[sc].frees += counts[1];
		st->allocs += counts[0];
		st->frees += counts[1];
	}
}

static void add_heap(const struct reading *r, const void *heap, struct hak_stats *st) {
	add_bins(r, heap, st);
	add_outbox(r, heap);
	add_messages(r, heap);
	add_quarantine(r, GET(heap, HEAP_QUARANTINE));
	add_counters(r, heap, st);
	add_ops(r, GET(heap, HEAP_OPS), st);
}

static bool has_thread(const struct reading *r, const void *heap) {
	return GET(heap, HEAP_BINS) != 0 && GET(heap, HEAP_LOCKED) == 0;
}

static void each_heap_in_all(void *arg, const struct reading *r, const void *heap) {
	struct hak_stats *st = arg;
	st->heaps++;
	st->threads += has_thread(r, heap);
	add_heap(r, heap, st);
}

static enum reading_result read_heaps(const struct reading *r,
                                      void (*each)(void *arg, const struct reading *r, const void *heap),
                                      void *arg) {
	struct reading_copy *heap = &r->room->outer;
	uint64_t at = get_word(r, r->root[ROOT_HEAPS]);
	for (size_t n = 0; at != 0 && n < LIST_MOST; n++) {
		if (!get_copy(r, heap, at, r->size[S_HEAP]))
			return READING_GONE;
		each(arg, r, heap->bytes);
		at = GET(heap->bytes, HEAP_NEXT);
	}
	return READING_OK;
}

struct heap_reader {
	uint64_t count;
	struct reading_heap *heap;
	reading_heap_fn *visit;
	void *arg;
};

static void each_heap(void *arg, const struct reading *r, const void *heap) {
	struct heap_reader *hr = arg;
	struct reading_heap *h = hr->heap;
	memset(h, 0, sizeof *h);
	memset(r->room->cached, 0, sizeof r->room->cached);
	h->index = hr->count++;
	h->number = GET(heap, HEAP_TAG) >> (r->number[N_OWNER_SHIFT] & 31);
	h->is_locked = GET(heap, HEAP_LOCKED) != 0;
	h->has_thread = has_thread(r, heap);
	add_heap(r, heap, &h->counts);
	for (unsigned sc = 1; sc < HAK_STATS_CLASSES; sc++) {
		h->counts.cached_blocks += r->room->cached[sc];
		h->counts.cached += r->room->cached[sc] * reading_class_size(r, sc);
	}
	hr->visit(hr->arg, h);
}

enum reading_result reading_heaps(const struct reading *r, struct reading_heap *heap, reading_heap_fn *visit,
                                  void *arg) {
	struct heap_reader hr = { 0, heap, visit, arg };
	return read_heaps(r, each_heap, &hr);
}

/* ---- the rest ---- */

static void add_nursery(const struct reading *r, uint64_t *live) {
	struct reading_copy *nursery = &r->room->outer;
	if (!get_copy(r, nursery, r->root[ROOT_NURSERY], r->size[S_NURSERY]))
		return;
	const uint8_t *unit = (const uint8_t *)place(nursery->bytes, offset_of(r, F_NURSERY_UNITS));
	size_t units = r->number[N_NURSERY_UNIT] != 0 ? GET(nursery->bytes, NURSERY_USED) / r->number[N_NURSERY_UNIT] : 0;
	for (size_t i = 0; i < units && i < (r->field[F_NURSERY_UNITS] & 0xffff); i++)
		if (unit[i] != 0 && (unit[i] & r->number[N_NURSERY_FREED]) == 0 && unit[i] < HAK_STATS_CLASSES)
			live[unit[i]]++;
}

static void add_large(void *arg, const struct reading_large *l) {
	struct hak_stats *st = arg;
	if (!l->is_live) {
		if (l->in_pocket)
			st->bigcache += l->granules; /* in use as far as others know; add_space goes on */
		return;
	}
	bool l25 = l->usable >= (uint64_t)512 << 10, l2 = l->usable >= (uint64_t)2 << 20;
	*(l2 ? &st->l2 : l25 ? &st->l25 : &st->large) += l->usable;
	*(l2 ? &st->l2_blocks : l25 ? &st->l25_blocks : &st->large_blocks) += 1;
	st->live += l->usable;
	st->unused += l->unused;
	st->live_blocks++;
}

static const struct summand pool_counters[] = {
	SUMMAND(POOL_COUNT, published),
	SUMMAND(POOL_LOCKS, pool_locks),
	SUMMAND(POOL_WAITS, pool_waits),
	SUMMAND(POOL_PUBLISHED, pool_published),
	SUMMAND(POOL_ADOPTED, pool_adopted),
};

static void add_pools(const struct reading *r, struct hak_stats *st) {
	struct reading_copy *pool = &r->room->outer;
	for (size_t sc = 0; sc < r->number[N_CLASSES]; sc++) {
		if (!get_copy(r, pool, r->root[ROOT_POOLS] + sc * r->size[S_POOL], r->size[S_POOL]))
			return;
		ADD_ALL(r, pool->bytes, pool_counters, st, 0);
	}
}

static const struct summand os_counters[] = {
	SUMMAND(OS_MMAP, mmap_calls),
	SUMMAND(OS_MUNMAP, munmap_calls),
	SUMMAND(OS_MREMAP, mremap_calls),
	SUMMAND(OS_MADVISE, madvise_calls),
	SUMMAND(OS_MAPPED_MOST, committed_peak),
};
static const struct summand bigcache_counters[] = {
	SUMMAND(BIG_HITS, bigcache_hits),
	SUMMAND(BIG_MISSES, bigcache_misses),
	SUMMAND(BIG_EVICTIONS, bigcache_evictions),
};

static void add_system(const struct reading *r, struct hak_stats *st) {
	struct reading_copy *c = &r->room->outer;
	if (get_copy(r, c, r->root[ROOT_OS], r->size[S_OS]))
		ADD_ALL(r, c->bytes, os_counters, st, 0);
	if (get_copy(r, c, r->root[ROOT_BIGCACHE], r->size[S_BIGCACHE]))
		ADD_ALL(r, c->bytes, bigcache_counters, st, 0);
	if (get_copy(r, c, r->root[ROOT_SETTINGS], r->size[S_SETTINGS]))
		st->limit = GET(c->bytes, SETTINGS_LIMIT);
	st->committed = get_word(r, r->root[ROOT_MAPPED]);
	if (st->committed_peak < st->committed) /* which others may just have raised */
		st->committed_peak = st->committed;
	st->metadata = get_word(r, r->root[ROOT_META_USED]);
}

static void add_superslab(void *arg, const struct reading_superslab *s) {
	struct hak_stats *st = arg;
	st->superslabs++;
	st->huge_superslabs += s->huge;
	st->clean += count_ones32(s->free & s->zero);
}

static const struct summand space_granules[] = {
	SUMMAND(SPACE_DIRTY, dirty),
	SUMMAND(SPACE_DIRTY_MOST, dirty_peak),
	SUMMAND(SPACE_LIVE_MOST, used_peak),
	SUMMAND(SPACE_RETAINED_MOST, retained_peak),
	SUMMAND(SPACE_PURGED, purged),
};
static const struct summand space_counters[] = {
	SUMMAND(SPACE_PURGES, purges),
	SUMMAND(SPACE_LOCKS, space_locks),
	SUMMAND(SPACE_WAITS, space_waits),
	SUMMAND(SPACE_REGRETS, regrets),
};

/* After add_superslab has counted clean granules. */
static void add_space(const struct reading *r, struct hak_stats *st) {
	struct reading_copy *c = &r->room->outer;
	unsigned shift = r->number[N_GRANULE_SHIFT];
	if (!get_copy(r, c, r->root[ROOT_SPACE], r->size[S_SPACE]))
		return;
	ADD_ALL(r, c->bytes, space_granules, st, shift);
	ADD_ALL(r, c->bytes, space_counters, st, 0);
	uint64_t spans = get_word(r, r->root[ROOT_BIGCACHE_GRANULES]) << shift;
	st->bigcache = (st->bigcache << shift) + spans;
	st->clean <<= shift;
	st->retained = st->dirty + st->clean + st->bigcache;
	if (st->retained_peak < st->retained) /* what heaps keep in their pockets is counted when it is read */
		st->retained_peak = st->retained;
	uint64_t superslabs = st->superslabs * r->number[N_SUPERSLAB_GRANULES];
	st->mapped = (superslabs + GET(c->bytes, SPACE_ALONE) + GET(c->bytes, SPACE_BIG)) << shift;
	st->mapped += spans;
	uint64_t in_use = GET(c->bytes, SPACE_LIVE) + GET(c->bytes, SPACE_ALONE) + GET(c->bytes, SPACE_BIG);
	st->resident = (in_use << shift) + st->dirty + spans + st->metadata;
}

/* `waste`: of a block, in the mean. */
static uint64_t unused_of(const struct hak_stats_class *c, double waste) {
	double bytes = waste * (double)c->live;
	return bytes < 0x1p63 ? (uint64_t)bytes : 0;
}

/* Blocks not at home, less those in caches, are with the program. */
static void settle_classes(struct hak_stats *st, const struct reading_room *sums) {
	const uint64_t *out = sums->out;
	for (size_t sc = 1; sc < st->classes; sc++) {
		struct hak_stats_class *c = &st->by_class[sc];
		uint64_t cached = sums->cached[sc] < out[sc] ? sums->cached[sc] : out[sc];
		c->live = out[sc] - cached;
		c->cached += cached;
		if (sums->samples[sc] != 0)
			c->unused = unused_of(c, (double)sums->waste[sc] / (double)sums->samples[sc]);
		st->live += c->live * c->size;
		st->live_blocks += c->live;
		st->unused += c->unused;
		st->cached += c->cached * c->size;
		st->cached_blocks += c->cached;
		st->slab_free += c->free * c->size;
		st->slab_fresh += c->fresh * c->size;
	}
}

enum reading_result reading_stats(const struct reading *r, struct hak_stats *st) {
	uint64_t *out = r->room->out;
	memset(st, 0, sizeof *st);
	memset(out, 0, sizeof *r->room - offsetof(struct reading_room, out));
	st->size = sizeof *st;
	st->has_counters = r->number[N_HAS_COUNTERS];
	st->classes = r->number[N_CLASSES] < HAK_STATS_CLASSES ? r->number[N_CLASSES] : HAK_STATS_CLASSES;
	for (unsigned sc = 1; sc < st->classes; sc++)
		st->by_class[sc].size = reading_class_size(r, sc);
	struct slab_reader sr = { .r = r, .stats = st, .live = out };
	/* Bins before slabs: what moves home meanwhile is then counted twice as free rather than as lost. */
	enum reading_result result = read_heaps(r, each_heap_in_all, st);
	if (result == READING_OK)
		result = read_slabs(&sr);
	if (result == READING_OK)
		result = reading_larges(r, add_large, st);
	if (result == READING_OK)
		result = reading_superslabs(r, add_superslab, st);
	if (result != READING_OK)
		return result;
	add_nursery(r, out);
	add_pools(r, st);
	add_system(r, st);
	add_space(r, st);
	settle_classes(st, r->room);
	st->resident -= st->slab_fresh < st->resident ? st->slab_fresh : st->resident;
	/* What could not be read counts as 0; a process that has ended meanwhile is seen by the last word, too. */
	uint64_t word;
	return get_bytes(r, r->root[ROOT_MAPPED], &word, sizeof word) ? READING_OK : READING_GONE;
}

/* ---- settings ---- */

/* Word number `n` of a row of words. */
static bool nth_word(const char *words, uint64_t n, char *to, size_t size) {
	const char *end = words + text_length(words), *space = find_byte(words, end, ' ');
	for (; n > 0; n--) {
		if (space == end)
			return false;
		words = space + 1;
		space = find_byte(words, end, ' ');
	}
	size_t length = (size_t)(space - words);
	if (length == 0 || length >= size)
		return false;
	memcpy(to, words, length);
	to[length] = '\0';
	return true;
}

static bool is_number(const struct reading *r, uint64_t kind) {
	return r->field[F_SETTING_LOW] != 0 && (kind == r->number[N_KIND_COUNT] || kind == r->number[N_KIND_SIZE] ||
		kind == r->number[N_KIND_MS]);
}

static void put_number(char *to, int64_t value) {
	char digits[24];
	uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
	size_t n = 0;
	do
		digits[n++] = (char)('0' + left % 10);
	while ((left /= 10) != 0);
	if (value < 0)
		*to++ = '-';
	while (n > 0)
		*to++ = digits[--n];
	*to = '\0';
}

bool reading_setting(const struct reading *r, unsigned row, struct reading_setting *setting) {
	struct reading_copy *c = &r->room->outer;
	char words[512] = "", name[sizeof setting->name] = "";
	int64_t value = 0;
	size_t size = r->size[S_SETTING];
	memset(setting, 0, sizeof *setting);
	if (row >= r->number[N_SETTINGS] || !get_copy(r, c, r->root[ROOT_SETTING_ROWS] + row * size, size))
		return false;
	size_t width_of_name = r->number[N_SETTING_NAME];
	if (width_of_name > sizeof name ||
	    !get_bytes(r, r->root[ROOT_SETTING_NAMES] + row * width_of_name, name, width_of_name))
		return false;
	memcpy(setting->name, name, sizeof name - 1);
	memcpy(words, place(c->bytes, offset_of(r, F_SETTING_WORDS)), r->field[F_SETTING_WORDS] & 0xff);
	uint64_t kind = GET(c->bytes, SETTING_KIND), width = GET(c->bytes, SETTING_SIZE);
	uint64_t at = r->root[ROOT_SETTINGS] + GET(c->bytes, SETTING_OFFSET);
	if (width > sizeof value)
		return get_bytes(r, at, setting->value, width < sizeof setting->value ? width : sizeof setting->value - 1);
	if (!get_bytes(r, at, &value, width))
		return false;
	uint64_t word = (uint64_t)value;
	if (kind == r->number[N_KIND_BOOL])
		memcpy(words, "0 1", sizeof "0 1");
	else if (kind == r->number[N_KIND_PROFILE])
		get_bytes(r, r->root[ROOT_PROFILE_NAMES], words, sizeof words / 2);
	int64_t low = (int32_t)GET(c->bytes, SETTING_LOW);
	if (is_number(r, kind) && low <= 0) /* where 0 is a number like others, the word means the one below the bounds */
		word = (uint64_t)value - (uint64_t)low + 1;
	if (!nth_word(words, word, setting->value, sizeof setting->value))
		put_number(setting->value, value);
	return true;
}
