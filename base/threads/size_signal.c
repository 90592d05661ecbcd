/* SPDX-License-Identifier: Apache-2.0 */
/* The system sends SIGXFSZ to the thread that writes, so that thread can block and take it. */
#define _GNU_SOURCE
#include "base/threads/size_signal.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

static sigset_t only_it(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGXFSZ);
    return set;
}

void dao_size_signal_hold(dao_size_signal_t *signal)
{
    struct rlimit most;
    int error = errno;
    *signal = (dao_size_signal_t){0};
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY) {
        const sigset_t set = only_it();
        sigset_t pending, before;
        signal->was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
        signal->is_held = pthread_sigmask(SIG_BLOCK, &set, &before) == 0;
        signal->was_blocked = signal->is_held && sigismember(&before, SIGXFSZ) == 1;
    }
    errno = error;
}

void dao_size_signal_release(const dao_size_signal_t *signal)
{
    int error = errno;
    if (signal->is_held) {
        const sigset_t set = only_it();
        const struct timespec now = {0};
        if (!signal->was_pending) {
            (void)sigtimedwait(&set, NULL, &now); /* nothing to take is no failure */
        }
        if (!signal->was_blocked) {
            (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        }
    }
    errno = error;
}
