/* SPDX-License-Identifier: Apache-2.0 */
/* The handler stores to a lock-free atomic, which is all that it may do. */
#define _GNU_SOURCE
#include "base/threads/signal_flag.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static atomic_bool has_come;

int dao_signal_number(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"WINCH", SIGWINCH}};
    name += strncmp(name, "SIG", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (strcmp(name, signals[i].name) == 0) {
            return signals[i].number;
        }
    }
    return 0;
}

static void note(int signal_number)
{
    (void)signal_number;
    atomic_store_explicit(&has_come, true, memory_order_relaxed);
}

static bool is_handled_by(int signal_number, void (*handler)(int))
{
    struct sigaction action;
    return sigaction(signal_number, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
           action.sa_handler == handler;
}

bool dao_signal_flag_begin(int signal_number)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    atomic_store(&has_come, false);
    return is_handled_by(signal_number, SIG_DFL) && sigemptyset(&action.sa_mask) == 0 &&
           sigaction(signal_number, &action, NULL) == 0;
}

void dao_signal_flag_end(int signal_number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    if (is_handled_by(signal_number, note)) {
        (void)sigaction(signal_number, &action, NULL); /* it was possible before */
    }
}

bool dao_signal_flag_take(void)
{
    return atomic_exchange(&has_come, false);
}
