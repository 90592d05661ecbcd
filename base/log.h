/* SPDX-License-Identifier: Apache-2.0 */
/* The log: lines handed to the program's callback; the library itself prints nothing. */
#ifndef DAO_BASE_LOG_H
#define DAO_BASE_LOG_H

#include <dao/context.h>

/* Sets where lines go; callback NULL silences the log. */
void dao_log_set(dao_log_callback_t callback, void *user, dao_log_level_t level);

/* Writes one line of UTF-8. The caller holds no lock; dao_finalize() is refused meanwhile. */
DAO_PRINTF(2, 3) void dao_log(dao_log_level_t level, const char *format, ...);

#endif
