/* SPDX-License-Identifier: MIT */
#include "front/tcache.h"

__attribute__((used)) HAK_TLS struct tcache hak_tcache; /* by HAK_IN_THREAD */
