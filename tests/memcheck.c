/* SPDX-License-Identifier: MIT */
/*
 * What memcheck gets wrong about HAKMEM's memory, told to it.
 *
 * mremap to a given address (MREMAP_FIXED): valgrind takes the protection of what is new from its table entry of
 * the old mapping after it has changed that table. If by then the entry is a gap's, the new part counts as
 * inaccessible, though it is not. Whether it does depends on what lies around the block: at HAKMEM_SECURE=2 on chance.
 * So in valgrind 3.19; where mremap may choose the address, valgrind has read the protection before.
 */
#include "memcheck.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

#if defined(VALGRIND_MAKE_MEM_DEFINED) && !defined(NVALGRIND)
#include "os/os.h"

/* Called by valgrind, by its name, in place of os_move in whatever object (Za: any). */
#define OS_MOVE_UNDER_VALGRIND I_WRAP_SONAME_FNNAME_ZU(Za, os_move)

enum os_move_result OS_MOVE_UNDER_VALGRIND(void *addr, size_t old_size, size_t new_size, void *target);

enum os_move_result OS_MOVE_UNDER_VALGRIND(void *addr, size_t old_size, size_t new_size, void *target)
{
	OrigFn os_move_itself;
	unsigned long result;

	VALGRIND_GET_ORIG_FN(os_move_itself);
	CALL_FN_W_WWWW(result, os_move_itself, addr, old_size, new_size, target);
	if ((enum os_move_result)result == MOVE_DONE && new_size > old_size)
		VALGRIND_MAKE_MEM_DEFINED((char *)target + old_size, new_size - old_size);
	return (enum os_move_result)result;
}

bool on_memcheck(void)
{
	return RUNNING_ON_VALGRIND;
}
#else
bool on_memcheck(void)
{
	return false;
}
#endif
