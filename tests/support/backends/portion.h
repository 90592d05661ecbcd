/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual devices that suites are written for, out of real ones: a table around another one whose devices
   are portions of the other one's, in turns, as many and as large as the settings of the cpu backend say. So
   suites that fill a device, or need two of them, run on a single one of any size. Of those settings, links'
   speeds say nothing here. */
#ifndef DAO_TESTS_SUPPORT_PORTION_H
#define DAO_TESTS_SUPPORT_PORTION_H

#include "backends/backend.h"

/* Returns the table around `inner`, which is the same one in every call. */
const dao_backend_ops_t *portion_ops(const dao_backend_ops_t *inner);

/* Returns true if a suite's devices are portions: then they may be portions of one, and do not reach each
   other. */
bool portion_is_used(void);

#endif
