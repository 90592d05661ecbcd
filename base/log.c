/* SPDX-License-Identifier: Apache-2.0 */
/* The log has one destination: a callback with its level, replaced as a whole under a lock. */
#include "base/log.h"

#include "base/report/callback.h"
#include "base/report/printable.h"
#include "base/threads/sync.h"

#include <stdarg.h>
#include <stdio.h>

/* Size of a line with its closing zero; longer lines are cut. */
#define LINE_BYTES 1024

typedef struct target {
    dao_log_callback_t callback;
    void *user;
    dao_log_level_t level;
} target_t;

static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
static target_t current; /* guarded by the lock */

void dao_log_set(dao_log_callback_t callback, void *user, dao_log_level_t level)
{
    dao_mutex_lock(&lock);
    current = (target_t){.callback = callback, .user = user, .level = level};
    dao_mutex_unlock(&lock);
}

void dao_log(dao_log_level_t level, const char *format, ...)
{
    DAO_ASSERT_UNLOCKED();
    dao_mutex_lock(&lock);
    target_t target = current;
    dao_mutex_unlock(&lock);
    if (target.callback == NULL || level > target.level) {
        return;
    }
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    dao_make_printable(line); /* names that the program chose are part of it */
    dao_callback_begin();
    target.callback(level, line, target.user);
    dao_callback_end();
}
