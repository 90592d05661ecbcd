/* SPDX-License-Identifier: Apache-2.0 */
/* The log has one destination, replaced as a whole under a lock: a callback with its level, or standard
   error. A line there is one write(2) without malloc(), so that lines of several threads and of a library
   over malloc() itself stay whole. */
#include "base/log.h"

#include "base/report/callback.h"
#include "base/text/printable.h"
#include "base/threads/sync.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* Size of a line with its closing zero; longer lines are cut. */
#define LINE_BYTES 1024

typedef struct target {
    dao_log_callback_t callback;
    void *user;
    dao_log_level_t level;
} target_t;

static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
DAO_HELD_OVER_FORK(lock)
static target_t current = {.level = DAO_LOG_LEVEL_WARNING}; /* guarded by the lock */

void dao_log_set(dao_log_callback_t callback, void *user, dao_log_level_t level)
{
    dao_mutex_lock(&lock);
    current = (target_t){.callback = callback, .user = user, .level = level};
    dao_mutex_unlock(&lock);
}

void dao_log_end(void)
{
    dao_mutex_lock(&lock);
    if (current.callback != NULL) {
        current = (target_t){.level = DAO_LOG_LEVEL_OFF};
    }
    dao_mutex_unlock(&lock);
}

/* Writes a line to standard error. Nobody hears of it if that fails. */
static void write_line(dao_log_level_t level, const char *line)
{
    static const char *const names[] = {
        [DAO_LOG_LEVEL_ERROR] = "error",
        [DAO_LOG_LEVEL_WARNING] = "warning",
        [DAO_LOG_LEVEL_INFO] = "info",
        [DAO_LOG_LEVEL_DEBUG] = "debug",
    };
    char text[LINE_BYTES + 32]; /* what stands before the line, and its end */
    int length = snprintf(text, sizeof(text), "libdao: %s: %s\n", names[level], line);
    int state = dao_thread_cancel_defer();
    ssize_t written = write(STDERR_FILENO, text, (size_t)length);
    dao_thread_cancel_restore(state);
    (void)written;
}

void dao_log(dao_log_level_t level, const char *format, ...)
{
    DAO_ASSERT_UNLOCKED();
    dao_mutex_lock(&lock);
    target_t target = current;
    dao_mutex_unlock(&lock);
    if (level > target.level) {
        return;
    }
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    dao_make_printable(line); /* names that the program chose are part of it */
    if (target.callback == NULL) {
        write_line(level, line);
        return;
    }
    dao_callback_begin();
    target.callback(level, line, target.user);
    dao_callback_end();
}
