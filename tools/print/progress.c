/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that looks at three atomics and prints. */
#define _GNU_SOURCE
#include "tools/print/progress.h"

#include "tools/print/interrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static const uint64_t silence_ns = 1000 * MS;
static const uint64_t look_ns = 10 * MS;
static const uint64_t terminal_ns = 200 * MS;
static const uint64_t line_ns = 2000 * MS;

/* `placing: 37 %, 1200 / 3200, 410 a second, 4 s left`; without a total only how much is done. */
static void print(dao_progress_t *progress, bool is_terminal, uint64_t now_ns)
{
    uint64_t done_count = atomic_load(&progress->done_count),
             total_count = atomic_load(&progress->total_count);
    double spent_s = (double)(now_ns - atomic_load(&progress->phase_ns)) / 1e9;
    double rate = spent_s > 0 ? (double)done_count / spent_s : 0;
    (void)fprintf(stderr, "%s%s: ", is_terminal ? "\r" : "", atomic_load(&progress->phase));
    if (total_count > 0) {
        (void)fprintf(stderr, "%.0f %%, ", 100 * (double)done_count / (double)total_count);
    }
    (void)fprintf(stderr, "%" PRIu64 " / %" PRIu64, done_count, total_count);
    if (rate > 0) {
        (void)fprintf(stderr, ", %.3g a second", rate);
    }
    if (rate > 0 && total_count >= done_count) {
        (void)fprintf(stderr, ", %.0f s left", (double)(total_count - done_count) / rate);
    }
    (void)fputs(is_terminal ? "\033[K" : "\n", stderr);
    (void)fflush(stderr);
}

static void *tell(void *user)
{
    dao_progress_t *progress = user;
    bool is_terminal = isatty(STDERR_FILENO) == 1;
    bool has_printed = false;
    uint64_t next_ns = dao_clock_ns() + silence_ns;
    while (!atomic_load(&progress->is_stopping) && !dao_interrupt_is_asked()) {
        uint64_t now_ns = dao_clock_ns();
        if (now_ns >= next_ns) {
            print(progress, is_terminal, now_ns);
            has_printed = true;
            next_ns = now_ns + (is_terminal ? terminal_ns : line_ns);
        }
        dao_sleep_until(now_ns + look_ns);
    }
    if (has_printed && is_terminal) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    if (dao_interrupt_is_asked()) {
        dao_interrupt_end();
    }
    return NULL;
}

void dao_progress_start(dao_progress_t *progress, bool is_wanted)
{
    atomic_init(&progress->phase, "starting");
    atomic_init(&progress->done_count, 0);
    atomic_init(&progress->total_count, 0);
    atomic_init(&progress->phase_ns, dao_clock_ns());
    atomic_init(&progress->is_stopping, false);
    if (is_wanted) {
        dao_interrupt_watch();
    }
    progress->is_running =
        is_wanted && dao_thread_start(&progress->thread, "dao-progress", tell, progress) == DAO_OK;
    if (is_wanted && !progress->is_running) {
        dao_interrupt_unwatch(); /* nobody would see that it was pressed */
    }
}

void dao_progress_phase(dao_progress_t *progress, const char *phase, uint64_t total_count)
{
    atomic_store(&progress->phase, phase);
    atomic_store(&progress->phase_ns, dao_clock_ns());
    atomic_store(&progress->done_count, 0);
    atomic_store(&progress->total_count, total_count);
}

void dao_progress_stop(dao_progress_t *progress)
{
    if (progress->is_running) {
        atomic_store(&progress->is_stopping, true);
        dao_thread_join(&progress->thread);
        dao_interrupt_unwatch();
    }
    progress->is_running = false;
}
