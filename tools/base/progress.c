/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that looks at a few numbers and prints. The lock guards the phase and the line; what is done is
   counted without it. */
#define _GNU_SOURCE
#include "tools/base/progress.h"

#include "tools/base/interrupt.h"

#include "base/threads/sync.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static const uint64_t silence_ns = 1000 * MS;
static const uint64_t look_ns = 50 * MS; /* how soon Ctrl-C is seen */
static const uint64_t terminal_ns = 200 * MS;
static const uint64_t line_ns = 2000 * MS;

enum { NAME_BYTES = 48, AMOUNT_BYTES = 32 };

static struct {
    dao_thread_t thread;
    bool is_running; /* the thread; of the command's own thread alone */
    dao_mutex_t lock;
    dao_cond_t stopped;
    bool is_stopping;
    bool is_terminal;
    bool has_line; /* on a terminal, the cursor stands behind it */
    char name[NAME_BYTES];
    dao_progress_unit_t unit;
    uint64_t total;
    uint64_t phase_ns; /* when it began */
    _Atomic uint64_t done;
} progress = {.lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF)};

static const char *write_amount(double amount, char out_text[AMOUNT_BYTES])
{
    switch (progress.unit) {
    case DAO_PROGRESS_UNIT_BYTES:
        (void)snprintf(out_text, AMOUNT_BYTES, "%.1f MiB", amount / 0x1p20);
        break;
    case DAO_PROGRESS_UNIT_NS:
        (void)snprintf(out_text, AMOUNT_BYTES, "%.1f s", amount / 1e9);
        break;
    case DAO_PROGRESS_UNIT_PARTS:
    default:
        (void)snprintf(out_text, AMOUNT_BYTES, amount < 100 ? "%.3g" : "%.0f", amount);
    }
    return out_text;
}

/* `planning: 37 %, 1200 / 3200, 410 a second, 4 s left`; without a total only how much is done. */
static void print_locked(uint64_t now_ns)
{
    char text[AMOUNT_BYTES];
    double done = (double)atomic_load(&progress.done), total = (double)progress.total;
    double spent_s = (double)(now_ns - progress.phase_ns) / 1e9;
    double rate = spent_s > 0 ? done / spent_s : 0;
    (void)fprintf(stderr, "%s%s: ", progress.is_terminal ? "\r" : "", progress.name);
    if (total > 0) {
        (void)fprintf(stderr, "%.0f %%, %s / ", 100 * (done < total ? done / total : 1),
                      write_amount(done, text));
        (void)fputs(write_amount(total, text), stderr);
    } else if (done > 0) {
        (void)fputs(write_amount(done, text), stderr);
    } else {
        (void)fprintf(stderr, "%.0f s", spent_s);
    }
    if (rate > 0) {
        (void)fprintf(stderr, ", %s a second", write_amount(rate, text));
    }
    if (rate > 0 && total > done) {
        (void)fprintf(stderr, ", %.0f s left", (total - done) / rate);
    }
    (void)fputs(progress.is_terminal ? "\033[K" : "\n", stderr);
    (void)fflush(stderr);
    progress.has_line = progress.is_terminal;
}

static void hide_locked(void)
{
    if (progress.has_line) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
        progress.has_line = false;
    }
}

static bool is_to_end(void)
{
    return dao_interrupt_is_asked() && dao_interrupt_mode() == DAO_INTERRUPT_ENDS;
}

static void *tell(void *user)
{
    uint64_t next_ns = dao_clock_ns() + silence_ns;
    (void)user; /* there is one progress */
    dao_mutex_lock(&progress.lock);
    while (!progress.is_stopping && !is_to_end()) {
        uint64_t now_ns = dao_clock_ns();
        if (now_ns >= next_ns && progress.name[0] != '\0') {
            print_locked(now_ns);
            next_ns = now_ns + (progress.is_terminal ? terminal_ns : line_ns);
        }
        (void)dao_cond_wait_until(&progress.stopped, &progress.lock, now_ns + look_ns);
    }
    hide_locked();
    dao_mutex_unlock(&progress.lock);
    if (is_to_end()) {
        (void)fflush(stdout); /* rows that were found so far; what cannot be written is not missed any more */
        dao_interrupt_end();
    }
    return NULL;
}

void dao_progress_start(void)
{
    if (progress.is_running) {
        return;
    }
    dao_cond_init(&progress.stopped);
    progress.is_stopping = false;
    progress.is_terminal = isatty(STDERR_FILENO) == 1;
    progress.name[0] = '\0';
    dao_interrupt_watch(DAO_INTERRUPT_ENDS);
    progress.is_running = dao_thread_start(&progress.thread, "dao-progress", tell, NULL) == DAO_OK;
    if (!progress.is_running) {
        dao_interrupt_unwatch(); /* nobody would see that it was pressed */
        dao_cond_finish(&progress.stopped);
    }
}

void dao_progress_stop(void)
{
    if (!progress.is_running) {
        return;
    }
    dao_mutex_lock(&progress.lock);
    progress.is_stopping = true;
    dao_cond_signal(&progress.stopped);
    dao_mutex_unlock(&progress.lock);
    dao_thread_join(&progress.thread);
    dao_cond_finish(&progress.stopped);
    dao_interrupt_unwatch();
    progress.is_running = false;
}

static void count_locked(dao_progress_unit_t unit, uint64_t total)
{
    progress.unit = unit;
    progress.total = total;
    progress.phase_ns = dao_clock_ns();
    atomic_store(&progress.done, 0);
}

void dao_progress_total(dao_progress_unit_t unit, uint64_t total)
{
    dao_mutex_lock(&progress.lock);
    count_locked(unit, total);
    dao_mutex_unlock(&progress.lock);
}

void dao_progress_phase(const char *name, dao_progress_unit_t unit, uint64_t total)
{
    size_t length = strlen(name);
    dao_mutex_lock(&progress.lock);
    (void)snprintf(progress.name, NAME_BYTES, "%s",
                   length < NAME_BYTES ? name : name + length - NAME_BYTES + 1);
    count_locked(unit, total);
    dao_mutex_unlock(&progress.lock);
}

void dao_progress_add(uint64_t count)
{
    atomic_fetch_add_explicit(&progress.done, count, memory_order_relaxed);
}

void dao_progress_set(uint64_t count)
{
    atomic_store_explicit(&progress.done, count, memory_order_relaxed);
}

uint64_t dao_progress_done(void)
{
    return atomic_load(&progress.done);
}

void dao_progress_hide(void)
{
    dao_mutex_lock(&progress.lock);
    hide_locked();
    dao_mutex_unlock(&progress.lock);
}
