/* SPDX-License-Identifier: Apache-2.0 */
/* The log: lines for the program's callback or, without one, for standard error. */
#ifndef DAO_BASE_LOG_H
#define DAO_BASE_LOG_H

#include "base/report/format.h"

#include <dao/context.h>

/* Sets the callback and the least important level that is logged. Callback NULL: lines go to standard error,
   as they do before the first call, from warnings on. */
void dao_log_set(dao_log_callback_t callback, void *user, dao_log_level_t level);

/* Takes the callback away, with which the log is off; standard error goes on getting its lines. */
void dao_log_end(void);

/* Logs one line of UTF-8. The caller holds no lock. While the callback runs, dao_finalize()
   is refused in its thread. */
DAO_PRINTF(2, 3) void dao_log(dao_log_level_t level, const char *format, ...);

#endif
