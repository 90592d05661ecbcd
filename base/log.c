/* The log's one destination. */
#include "base/log.h"

#include "base/sync.h"

#include <stdarg.h>
#include <stdio.h>

/* Most bytes of a line, the closing zero included; longer ones are cut. */
#define LINE_BYTES 1024

static dao_log_callback_t log_callback;
static void *log_user;
static dao_log_level_t log_level;

void dao_log_set(dao_log_callback_t callback, void *user, dao_log_level_t level)
{
    log_callback = callback;
    log_user = user;
    log_level = level;
}

void dao_log(dao_log_level_t level, const char *format, ...)
{
    DAO_ASSERT_UNLOCKED();
    if (log_callback == NULL || level > log_level) {
        return;
    }
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    log_callback(level, line, log_user);
}
