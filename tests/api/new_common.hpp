/* SPDX-License-Identifier: MIT */
/* The operators new and delete, all forms of them, for the C++ test programs. */
#ifndef HAK_TESTS_API_NEW_COMMON_HPP
#define HAK_TESTS_API_NEW_COMMON_HPP

#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <new>

extern "C" {
#include "common.h"
}

/* One form of operator new as a function, the alignment it is called with (0: none), and every form
   of operator delete that may take its blocks. */
struct Form {
	const char *name;
	void *(*allocate)(std::size_t size);
	std::size_t alignment;
	void (*release[3])(void *block, std::size_t size);
	bool is_nothrow;
};

extern const Form forms[];
extern const std::size_t forms_count;

#endif
