/* SPDX-License-Identifier: MIT */
#include "front/fault.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "base/bits.h"
#include "front/canary.h"
#include "front/guard.h"
#include "front/heap.h"
#include "front/large.h"
#include "front/misuse.h"
#include "front/tcache.h"
#include "os/os.h"

static struct sigaction before; /* constant once the handler is installed */

/* The instruction that made the access. */
static uintptr_t place_of(const ucontext_t *at) {
#if defined(__x86_64__)
	return (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return at->uc_mcontext.pc;
#else
	return 0;
#endif
}

static enum misuse_where where_of(uintptr_t addr, uintptr_t block, bool is_live) {
	return !is_live ? MISUSE_AFTER_FREE : addr < block ? MISUSE_BEFORE : MISUSE_BEHIND;
}

/* Reports the fault if it is one of ours; in a block it is not, whose pages the program itself has shut. What the
   program writes if it goes on must not be in the next block there. */
static bool explain(uintptr_t addr, bool is_mapped) {
	struct pagemap_entry e = pagemap_find(addr);
	size_t size;
	uintptr_t gone = is_mapped ? 0 : misuse_gone_block(addr, &size); /* mapped, it is somebody else's */
	if (gone != 0)
		return misuse_touched(MISUSE_AFTER_FREE, addr, gone, size);
	if (e.tag == TAG_GUARDED) {
		struct guarded *g = e.desc;
		if (g->made.thread == 0) /* no block has had these pages yet */
			return false;
		if (g->kind != KIND_FREED && addr - g->ptr < g->size)
			return false;
		enum misuse_where where = where_of(addr, g->ptr, g->kind != KIND_FREED);
		misuse_touched(where, addr, g->ptr, g->size);
		return g->is_breached = true;
	}
	if (e.tag == TAG_LARGE) {
		struct large *l = e.desc;
		uintptr_t base = (uintptr_t)l->span.base;
		bool live = atomic_load_explicit(&l->state, memory_order_acquire) == LARGE_LIVE;
		if (live && addr - base < l->usable)
			return false;
		misuse_touched(where_of(addr, base, live), addr, base, l->size);
		l->is_breached |= !live;
		return true;
	}
	const struct slab *s = tag_is_slab(e.tag) ? e.desc : NULL;
	if (s == NULL || !s->has_guard || addr - s->base >= os_facts.page_size)
		return false;
	misuse_touched(MISUSE_BETWEEN, addr, s->base, 0);
	return true;
}

static void pass_on(int number, siginfo_t *info, void *context) {
	bool comes_again = info->si_code > 0 && info->si_code != FAULT_LATE; /* else somebody sent it, or the access is over */
	if ((before.sa_flags & SA_SIGINFO) != 0) {
		before.sa_sigaction(number, info, context);
	} else if (before.sa_handler == SIG_DFL || (before.sa_handler == SIG_IGN && comes_again)) {
		/* An access faults again, for good. */
		sigaction(number, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
		if (!comes_again)
			os_raise(number);
	} else if (before.sa_handler != SIG_IGN) {
		before.sa_handler(number);
	}
}

static void handle(int number, siginfo_t *info, void *context) {
	uintptr_t addr = (uintptr_t)info->si_addr, page = os_facts.page_size;
	bool by_access = info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR;
	/* Going on after a report, or silently, means to let the access through. */
	bool is_mapped = info->si_code != SEGV_MAPERR;
	uintptr_t place = place_of(context);
	if (hak_tcache.heap != NULL) /* for the report's details: not where this thread last asked for memory */
		hak_tcache.heap->caller = (const void *)place;
	/* Nothing makes an instruction of what is there. */
	if (by_access && explain(addr, is_mapped) && addr != place && os_protect((void *)align_down(addr, page), page, true))
		return;
	pass_on(number, info, context);
}

void fault_watch(void) {
	struct sigaction ours = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	struct sigaction old;
	if (sigaction(SIGSEGV, NULL, &old) != 0 || old.sa_sigaction == handle)
		return;
	before = old;
	sigaction(SIGSEGV, &ours, NULL);
}
