/* SPDX-License-Identifier: MIT */
/*
 * Static probes of provider `hakmem` for perf, bpftrace and SystemTap: a nop each, and a note in the file that
 * says where it is and where its arguments are. None on the fast paths. Without the build option `usdt` they
 * are nothing.
 *
 *   refill (class, block size)      an empty bin is filled
 *   slab_get (address, class)       a slab is made; slab_release: is given back
 *   remote_post (slab, blocks)      blocks go to the thread that owns their slab, or their slabs: then it is
 *                                   the first block's
 *   remote_drain (slab)             it takes them up
 *   mmap (address, bytes)           memory from the system; purge: back to it, keeping the addresses
 *   limit_hit (bytes)               refused for the setting `limit`
 *   misuse (operation, address)     the program misused memory, operation as in front/misuse.h
 */
#ifndef HAK_BASE_PROBE_H
#define HAK_BASE_PROBE_H

#include "build_options.h"

#if HAK_USDT
#include <sys/sdt.h>
#define HAK_PROBE1(name, a) DTRACE_PROBE1(hakmem, name, a)
#define HAK_PROBE2(name, a, b) DTRACE_PROBE2(hakmem, name, a, b)
#else
#define HAK_PROBE1(name, a) ((void)(a))
#define HAK_PROBE2(name, a, b) ((void)(a), (void)(b))
#endif

#endif
