/* SPDX-License-Identifier: MIT */
#include "observe/crash.h"

#include <signal.h>
#include <string.h>

#include "base/bits.h"
#include "base/settings.h"
#include "front/canary.h"
#include "front/fault.h"
#include "front/guard.h"
#include "front/heap.h"
#include "front/large.h"
#include "front/misuse.h"
#include "front/nursery.h"
#include "os/os.h"
#include "space/meta.h"

static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT };
enum { SIGNALS = sizeof signals / sizeof *signals };

/* What was in place before ours. */
HAK_LATE_IN_BSS static struct sigaction previous[SIGNALS];

/* ---- what lies at an address ---- */

HAK_NOINLINE static void line_near(struct line *l, size_t distance, const char *where, const char *state, size_t size,
                                   uintptr_t block) {
	line_add(l, "is %zu bytes %s a %s %zu-byte block at %p", distance, where, state, size, (const void *)block);
}

static void line_block(struct line *l, uintptr_t addr, uintptr_t block, size_t size, const char *state) {
	line_near(l, addr - block, "into", state, size, block);
}

static const char unused[] = "is memory of ours that no block has had yet";
static const char behind[] = "behind the end of";

/* The canary tells, else the block's first word, if it can be read. */
static const char *slab_block_state(const struct slab *s, uintptr_t block) {
	uintptr_t word = s->has_canaries ? block + s->block_size - CANARY_BYTES : block;
	if (!os_is_readable((const void *)word))
		return "live or freed";
	bool is_free = s->has_canaries ? canary_kind(canary_load(block, s->block_size)) == KIND_FREED :
		misuse_block_is_free(s, block);
	return is_free ? "freed" : "live";
}

static void describe_slab(struct line *l, const struct slab *s, uintptr_t addr) {
	uintptr_t block = misuse_block_around(s, addr);
	if (block == 0) {
		line_str(l, "is in a slab of ours where no block is");
		return;
	}
	size_t size = hak_size_classes[slab_class_at(s, block)].size;
	line_block(l, addr, block, size, slab_block_state(s, block));
}

static void describe_nursery(struct line *l, uintptr_t addr) {
	uintptr_t block = 0;
	unsigned sc = 0;
	enum nursery_state state = nursery_find_around(addr, &block, &sc);
	if (state == NURSERY_UNUSED)
		line_str(l, unused);
	else
		line_block(l, addr, block, hak_size_classes[sc].size, state == NURSERY_FREED ? "freed" : "live");
}

static void describe_large(struct line *l, const struct large *large, uintptr_t addr) {
	uintptr_t base = (uintptr_t)large->span.base;
	bool live = atomic_load_explicit(&large->state, memory_order_relaxed) == LARGE_LIVE;
	const char *state = live ? "live" : "freed";
	if (addr < base)
		line_near(l, base - addr, "before", state, large->usable, base);
	else if (addr - base >= large->usable)
		line_near(l, addr - base - large->usable, behind, state, large->usable, base);
	else
		line_block(l, addr, base, large->usable, state);
}

static void describe_guarded(struct line *l, const struct guarded *g, uintptr_t addr) {
	const char *state = __atomic_load_n(&g->kind, __ATOMIC_RELAXED) != KIND_FREED ? "live" : "freed";
	if (g->made.thread == 0)
		line_str(l, unused);
	else if (addr - g->ptr < max_size(g->size, 1))
		line_block(l, addr, g->ptr, g->size, state);
	else if (addr < g->ptr)
		line_near(l, g->ptr - addr, "before", state, g->size, g->ptr);
	else
		line_near(l, addr - g->ptr - g->size, behind, state, g->size, g->ptr);
}

static bool describe_gone(struct line *l, uintptr_t addr) {
	size_t size;
	uintptr_t block = misuse_gone_block(addr, &size);
	if (block != 0)
		line_block(l, addr, block, size, "freed");
	return block != 0;
}

static void describe_none(struct line *l, uintptr_t addr, bool is_mapped) {
	if (meta_has(addr))
		line_str(l, "is in our description of memory");
	else if (addr < os_facts.page_size)
		line_str(l, "is a null pointer, or one with a small offset");
	else if (is_mapped || !describe_gone(l, addr))
		line_str(l, "is not in memory of the allocator");
}

/* A granule that holds nothing says what size the blocks had that it held last. */
static void describe_free(struct line *l, struct pagemap_entry e, uintptr_t addr) {
	size_t size = (size_t)e.desc;
	uintptr_t base = align_down(addr, GRANULE);
	bool large = e.tag == TAG_LARGE_FREED || e.tag == TAG_LARGE_GONE;
	if (size == 0 || (!large && size > GRANULE)) {
		line_str(l, "is free memory of ours");
		return;
	}
	uintptr_t block = large ? base : addr - (addr - base) % size;
	line_block(l, addr, block, size, "freed");
}

/* As in "is 8 bytes into a live 48-byte block at 0x...". `is_mapped`: what was unmapped is somebody else's by now. */
static void describe(struct line *l, uintptr_t addr, bool is_mapped) {
	struct pagemap_entry e = pagemap_find(addr);
	if (e.tag == TAG_NONE || (e.tag == TAG_LARGE_GONE && is_mapped))
		describe_none(l, addr, is_mapped);
	else if (tag_is_slab(e.tag))
		describe_slab(l, e.desc, addr);
	else if (e.tag == TAG_NURSERY)
		describe_nursery(l, addr);
	else if (e.tag == TAG_GUARDED)
		describe_guarded(l, e.desc, addr);
	else if (e.tag == TAG_LARGE || e.tag == TAG_LARGE_CACHED)
		describe_large(l, e.desc, addr);
	else
		describe_free(l, e, addr);
}

/* ---- the report ---- */

static const char *name_of(int number) {
	return number == SIGSEGV ? "SIGSEGV" : number == SIGBUS ? "SIGBUS" : "SIGABRT";
}

static const char *why_no_address(const siginfo_t *info) {
	if (info->si_signo == SIGABRT || info->si_code <= 0)
		return ": sent, not by an access to memory";
	if (info->si_code == SI_KERNEL)
		return ": an address that is no address";
	return info->si_code == FAULT_LATE ? ": told late" : NULL;
}

static void say_address(const siginfo_t *info) {
	struct line l;
	line_begin(&l);
	line_str(&l, name_of(info->si_signo));
	const char *why = why_no_address(info);
	if (why != NULL) {
		line_str(&l, why);
	} else {
		line_add(&l, ": %p ", info->si_addr);
		describe(&l, (uintptr_t)info->si_addr, info->si_signo == SIGBUS || info->si_code != SEGV_MAPERR);
	}
	line_write(&l);
}

static void line_count(struct line *l, const char *name, uint64_t count) {
	if (count == 0)
		return;
	line_add(l, "%s %zu", name, (size_t)count);
}

/* What the thread had done on the slow paths. */
static void say_thread(void) {
	const struct heap *h = hak_tcache.heap;
	struct line l;
	line_begin(&l);
	line_add(&l, "thread %zu", (size_t)os_thread_id());
	if (h == NULL) {
		line_str(&l, hak_tcache.torn_down ? " has ended, but for destructors" : " has not allocated yet");
	} else {
		line_str(&l, h->busy ? " was inside the allocator; refills:" : " was outside the allocator; refills:");
		line_count(&l, " own", h->count.refill_own);
		line_count(&l, " carved", h->count.refill_carve);
		line_count(&l, " ready", h->count.refill_ready);
		line_count(&l, " inbox", h->count.refill_inbox);
		line_count(&l, " adopted", h->count.refill_adopt);
		line_count(&l, " fresh", h->count.refill_fresh);
		line_count(&l, "; full bins", h->count.bin_overflow);
		line_count(&l, "; remote frees", h->count.remote_free);
	}
	line_write(&l);
}

/* ---- the signal ---- */

HAK_NOINLINE static const struct sigaction *previous_of(int number) {
	for (int i = 0; i < SIGNALS; i++)
		if (signals[i] == number)
			return &previous[i];
	return NULL;
}

/* Told some time after the access, which has been done. */
static bool is_late(const siginfo_t *info) {
	enum { MEMORY_FAILED = 5 }; /* BUS_MCEERR_AO, which not every libc has */
	return info->si_code == (info->si_signo == SIGBUS ? MEMORY_FAILED : FAULT_LATE);
}

/* Puts what was there before back and has the signal come again: at once where the faulting instruction is
   run again, else when the handler returns. */
static void pass_on(int number, siginfo_t *info) {
	sigaction(number, previous_of(number), NULL);
	if (info->si_code <= 0 || number == SIGABRT || is_late(info))
		os_raise(number);
}

static void handle(int number, siginfo_t *info, void *context) {
	/* What another thread does next may end the process before the report is out: it waits. A fault amid a report is not
	   reported. */
	if (misuse_begin_report()) {
		say_address(info);
		say_thread();
		misuse_end_report();
	}
	const struct sigaction *before = previous_of(number);
	if ((before->sa_flags & SA_SIGINFO) != 0)
		before->sa_sigaction(number, info, context);
	else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
		before->sa_handler(number);
	else
		pass_on(number, info);
}

HAK_EVERYDAY void crash_init(void) {
	struct sigaction action;
	if (!hak_settings.crash_report)
		return;
	memset(&action, 0, sizeof action);
	action.sa_sigaction = handle;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	for (int i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &action, &previous[i]);
}
