/* SPDX-License-Identifier: Apache-2.0 */
/* The handler sets a flag, and the system takes it away with the first signal. */
#define _GNU_SOURCE
#include "tools/base/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_bool is_asked;
static _Atomic dao_interrupt_mode_t mode_now;
static const char *_Atomic partial_path;

static void ask(int signal_number)
{
    (void)signal_number;
    atomic_store(&is_asked, true);
}

void dao_interrupt_watch(dao_interrupt_mode_t mode)
{
    struct sigaction old, ours = {.sa_handler = ask, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    atomic_store(&mode_now, mode);
    atomic_store(&is_asked, false);
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
        (void)sigaction(SIGINT, &ours, NULL); /* without it Ctrl-C ends the process, as ever */
    }
}

void dao_interrupt_unwatch(void)
{
    struct sigaction old;
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler == ask) {
        (void)signal(SIGINT, SIG_DFL);
    }
}

dao_interrupt_mode_t dao_interrupt_mode(void)
{
    return atomic_load(&mode_now);
}

bool dao_interrupt_is_asked(void)
{
    return atomic_load(&is_asked);
}

static void remove_partial(void)
{
    const char *path = atomic_load(&partial_path);
    if (path != NULL) {
        (void)unlink(path); /* it may have its name by now */
    }
}

/* Takes the file away, and lets the signal end the process once the handler has returned. */
static void remove_and_end(int signal_number)
{
    remove_partial();
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

/* Sets a signal's handler if `before` is what it has: one of the program's, or SIG_IGN, stays. */
static void handle_if(int signal_number, void (*before)(int), void (*handler)(int))
{
    struct sigaction old;
    if (sigaction(signal_number, NULL, &old) == 0 && old.sa_handler == before) {
        (void)signal(signal_number, handler);
    }
}

void dao_interrupt_remove(const char *path)
{
    static const int ends[] = {SIGTERM, SIGHUP, SIGINT};
    void (*before)(int) = path != NULL ? SIG_DFL : remove_and_end;
    void (*handler)(int) = path != NULL ? remove_and_end : SIG_DFL;
    atomic_store(&partial_path, path);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        handle_if(ends[i], before, handler);
    }
}

void dao_interrupt_end(void)
{
    remove_partial();
    (void)signal(SIGINT, SIG_DFL);
    (void)kill(getpid(), SIGINT); /* whichever thread takes it: libdao's own block signals */
}
