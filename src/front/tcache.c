/* SPDX-License-Identifier: MIT */
#include "front/tcache.h"

HAK_TLS struct tcache hak_tcache;
