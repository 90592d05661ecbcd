/* SPDX-License-Identifier: Apache-2.0 */
/* The first internal errors of the process, in the order of their count:

       kept      [ status, what, file, line ][ ... ]      of each, once `is_written` is set
       logged    as many of them are logged

   A note takes the next number and fills its entry, which no other thread writes. A log takes the next number
   to be logged by compare and swap. So neither needs a lock, and a note can be made under any. */

#include "base/internal_error.h"

#include "base/log.h"
#include "base/report/assert.h"

#include <inttypes.h>
#include <stdatomic.h>

/* Internal errors that are kept for the log; all are counted. */
#define KEPT_COUNT 32u

typedef struct internal_error {
    dao_status_t status;
    int line;
    const char *what;
    const char *file;
    _Atomic bool is_written;
} internal_error_t;

static internal_error_t kept[KEPT_COUNT];
static _Atomic uint64_t count;
static _Atomic uint64_t logged;

void dao_internal_error_note(dao_status_t status, const char *what, const char *file, int line)
{
    uint64_t number = atomic_fetch_add(&count, 1);
    if (number < KEPT_COUNT) {
        internal_error_t *error = &kept[number];
        error->status = status;
        error->what = what;
        error->file = file;
        error->line = line;
        atomic_store(&error->is_written, true);
    }
}

void dao_must_fail(dao_status_t status, const char *what, const char *file, int line)
{
    dao_internal_error_note(status, what, file, line);
#if defined(DAO_ASSERTS)
    dao_assert_failed(what, file, line);
#endif
}

uint64_t dao_internal_error_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}

void dao_internal_errors_log(void)
{
    uint64_t number = atomic_load(&logged);
    while (number < KEPT_COUNT && number < atomic_load(&count) && atomic_load(&kept[number].is_written)) {
        if (atomic_compare_exchange_strong(&logged, &number, number + 1)) {
            const internal_error_t *error = &kept[number];
            dao_log(DAO_LOG_LEVEL_ERROR,
                    "internal error %" PRIu64
                    " at %s:%d: %s answered %s; the library goes on, please report it",
                    number + 1, error->file, error->line, error->what, dao_status_name(error->status));
            number++;
        }
    }
}

void dao_internal_errors_clear(void)
{
    for (uint32_t i = 0; i < KEPT_COUNT; i++) {
        atomic_store(&kept[i].is_written, false);
    }
    atomic_store(&logged, 0);
    atomic_store(&count, 0);
}
