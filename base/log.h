/* SPDX-License-Identifier: Apache-2.0 */
/* The log: lines for the program's callback. The library itself prints nothing. */
#ifndef DAO_BASE_LOG_H
#define DAO_BASE_LOG_H

#include <dao/context.h>

/* Sets the callback and the least important level that it gets; callback NULL turns the log off. */
void dao_log_set(dao_log_callback_t callback, void *user, dao_log_level_t level);

/* Hands one line of UTF-8 to the callback. The caller holds no lock. While the callback runs, dao_finalize()
   is refused in its thread. */
DAO_PRINTF(2, 3) void dao_log(dao_log_level_t level, const char *format, ...);

#endif
