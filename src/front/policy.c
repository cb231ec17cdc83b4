/* SPDX-License-Identifier: MIT */
#include "front/policy.h"

#include "base/report.h"
#include "base/settings.h"
#include "os/os.h"
#include "space/superslab.h"

enum {
	INITIAL_BYTES = 4096,
	MAX_BYTES = 1024 * 1024,
	MAX_GROWN = 4 * 1024 * 1024,
	ALL_GROWN = 16 * MAX_GROWN, /* of which each thread has its part: what idle ones keep adds up */
	OWN_GROWN = 256 * 1024, /* of each band, whatever others want: bins that are large enough seldom miss */
	MIN_BLOCKS = 32,
	INITIAL_BLOCKS = 64,
	MAX_BLOCKS = 8192,
	GROWN_BLOCKS = 256, /* few bins outgrow that; arrays as long as any may need would be a page or two for each */
	CARVE_BYTES = 4096, /* touch one page at a time */

	ALL_BANDS = 0xfe,
	UPPER_BANDS = 0xe0, /* C5 .. C7 */
	LAST_BAND = POLICY_BANDS - 1,
	CHOSEN = 2,         /* bands that `auto` promotes beside C7 */
	LOCK_WEIGHT = 4,
	IDLE_PART = 64,     /* of all scores: a band with less is hardly used */
	NEEDIER = 8,        /* times the score: such a band gets another's bytes */
};

static bool is_promoted(const struct policy *p, unsigned band) {
	return band == 0 || (p->promoted >> band & 1) != 0;
}

HAK_EVERYDAY_SMALL void policy_init(struct policy *p) {
	HAK_EVERYDAY_CONST static const uint8_t promoted[] = {
		[POLICY_AUTO] = 1 << LAST_BAND, [POLICY_LEGACY] = 0, [POLICY_C5_7_ONLY] = UPPER_BANDS,
		[POLICY_TINYPLUS_ALL] = ALL_BANDS,
	};
	*p = (struct policy){ .promoted = promoted[hak_settings.policy] };
}

/* ---- scores ---- */

HAK_COLD static void log_change(unsigned owner, const char *what, unsigned band, uint32_t score) {
	struct line l;
	if (!hak_settings.policy_log)
		return;
	line_begin(&l);
	line_str(&l, "policy: heap ");
	line_dec(&l, owner);
	line_str(&l, what);
	if (band != 0) {
		line_str(&l, " C");
		line_dec(&l, band);
	} else {
		line_str(&l, " sizes above 1024");
	}
	line_str(&l, ", score ");
	line_dec(&l, score);
	line_write(&l);
}

static uint32_t update_scores(struct policy *p) {
	uint32_t all = 0;
	for (unsigned b = 0; b < POLICY_BANDS; b++) {
		p->score[b] = p->score[b] / 2 + p->misses[b] + LOCK_WEIGHT * p->locks[b];
		p->misses[b] = p->locks[b] = 0;
		all += p->score[b];
	}
	p->events = 0;
	return all;
}

/* The best band that is not among `taken`; 0: none has any score. */
static unsigned best_but(const struct policy *p, unsigned taken) {
	uint32_t most = 0;
	unsigned best = 0;
	for (unsigned b = 1; b < POLICY_BANDS; b++) {
		/* What is promoted stays so unless another is clearly better. */
		uint32_t score = p->score[b] + (is_promoted(p, b) ? p->score[b] / 4 : 0);
		if ((taken >> b & 1) == 0 && score > most) {
			most = score;
			best = b;
		}
	}
	return best;
}

static void choose(struct policy *p, unsigned owner) {
	unsigned chosen = 1 << LAST_BAND, before = p->promoted;
	for (int i = 0; i < CHOSEN; i++)
		chosen |= 1u << best_but(p, chosen);
	chosen &= ALL_BANDS;
	p->promoted = (uint8_t)chosen;
	for (unsigned b = 1; b < POLICY_BANDS; b++)
		if (((before ^ chosen) >> b & 1) != 0)
			log_change(owner, (chosen >> b & 1) != 0 ? " promotes" : " demotes", b, p->score[b]);
}

/* The highest score of the promoted bands that could not grow. */
static uint32_t need(const struct policy *p) {
	uint32_t most = 0;
	for (unsigned b = 0; b < POLICY_BANDS; b++)
		if ((p->refused >> b & 1) != 0 && is_promoted(p, b) && p->score[b] > most)
			most = p->score[b];
	return most;
}

HAK_COLD unsigned policy_rescore(struct policy *p, unsigned owner) {
	uint32_t all = update_scores(p), needed = need(p);
	unsigned shrunk = 0;
	if (hak_settings.policy == POLICY_AUTO)
		choose(p, owner);
	for (unsigned b = 0; b < POLICY_BANDS; b++) {
		bool idle = p->score[b] < all / IDLE_PART;
		bool in_the_way = p->score[b] < needed / NEEDIER && p->grown[b] > OWN_GROWN;
		if (p->grown[b] == 0 || !(idle || in_the_way))
			continue;
		shrunk |= 1u << b;
		p->grown[b] = 0;
		log_change(owner, " shrinks", b, p->score[b]);
	}
	p->refused = 0;
	return shrunk;
}

unsigned policy_warm_slabs(const struct policy *p, unsigned sc) {
	unsigned band = policy_band(sc);
	/* Not before it is clear that the program needs them: a small one is over by then. */
	return band != 0 && is_promoted(p, band) && p->score[band] != 0 ? 2 : 1;
}

/* ---- capacities ---- */

static unsigned clamp_blocks(size_t bytes, unsigned sc, unsigned max) {
	size_t n = bytes / hak_size_classes[sc].size;
	return (unsigned)min_size(max_size(n, MIN_BLOCKS), max);
}

unsigned policy_initial_capacity(unsigned sc) {
	if (hak_settings.cache_blocks != 0)
		return hak_settings.cache_blocks;
	return clamp_blocks(INITIAL_BYTES, sc, INITIAL_BLOCKS);
}

unsigned policy_max_capacity(unsigned sc) {
	if (hak_settings.cache_blocks != 0)
		return hak_settings.cache_blocks;
	return clamp_blocks(MAX_BYTES, sc, MAX_BLOCKS);
}

unsigned policy_array_length(unsigned sc, unsigned capacity) {
	unsigned most = policy_max_capacity(sc);
	return capacity <= GROWN_BLOCKS ? (unsigned)min_size(most, GROWN_BLOCKS) : most;
}

/* Bytes by which the bins of all bands together may grow for the sake of this one. */
static size_t bytes_for(const struct policy *p, unsigned band) {
	if (is_promoted(p, band))
		return MAX_GROWN;
	return hak_settings.policy == POLICY_AUTO ? MAX_GROWN / 4 * 3 : 0;
}

HAK_EVERYDAY_SMALL unsigned policy_growth(struct policy *p, unsigned sc, unsigned capacity) {
	unsigned band = policy_band(sc);
	/* Relaxed: a count. */
	size_t mine = ALL_GROWN / max_size(__atomic_load_n(&hak_space.threads, __ATOMIC_RELAXED), 1);
	size_t size = hak_size_classes[sc].size, most = min_size(bytes_for(p, band), mine), grown = 0;
	for (unsigned b = 0; b < POLICY_BANDS; b++)
		grown += p->grown[b];
	/* The most may be less: of a heap that is older than the settings. */
	size_t wanted = max_size(min_size((size_t)capacity * 2, policy_max_capacity(sc)), capacity) - capacity;
	size_t left = grown < most ? most - grown : 0, own = min_size(most, OWN_GROWN);
	own -= min_size(p->grown[band], own);
	size_t more = min_size(wanted, max_size(left, own) / size);
	if (more < wanted)
		p->refused |= (uint8_t)(1u << band);
	p->grown[band] += (uint32_t)(more * size);
	return (unsigned)more;
}

HAK_FAR void policy_take_back(struct policy *p, unsigned sc, unsigned more) {
	p->grown[policy_band(sc)] -= more * hak_size_classes[sc].size;
}

static bool is_c7(unsigned sc) {
	return policy_band(sc) == LAST_BAND;
}

unsigned policy_carve(unsigned sc, unsigned wanted, size_t resident) {
	if (HAK_UNLIKELY(hak_settings.bind_c7 < 2) && is_c7(sc))
		return 1;
	size_t size = hak_size_classes[sc].size, n = CARVE_BYTES / size;
	if (resident > CARVE_BYTES)
		n = max_size(n, min_size(resident / size, policy_initial_capacity(sc) / 2));
	return (unsigned)max_size(min_size(n, wanted), 1);
}
