/* SPDX-License-Identifier: Apache-2.0 */
/* The lock pair is measured on pthread itself, without the rank checks of sync.c. */
#define _GNU_SOURCE
#include "base/memory/measure.h"

#include "base/report/assert.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)

bool dao_measure_stay(uint32_t index)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return false; /* more processors than the set has bits */
    }
    uint32_t skip_count = index % (uint32_t)CPU_COUNT(&allowed);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && skip_count-- == 0) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    return sched_setaffinity(0, sizeof(one), &one) == 0;
}

uint64_t dao_measure_thread_ns(void)
{
    struct timespec now = {0};
    int result = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    DAO_ASSERT(result == 0); /* fails only on misuse */
    (void)result;
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t dao_measure_lock_pairs(uint64_t pair_count)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    uint64_t begin_ns = dao_measure_thread_ns();
    for (uint64_t i = 0; i < pair_count; i++) {
        (void)pthread_mutex_lock(&mutex); /* fails only on misuse */
        (void)pthread_mutex_unlock(&mutex);
    }
    uint64_t elapsed_ns = dao_measure_thread_ns() - begin_ns;
    (void)pthread_mutex_destroy(&mutex);
    return elapsed_ns;
}

uint64_t dao_measure_minor_faults(void)
{
    struct rusage usage = {0};
    int result = getrusage(RUSAGE_SELF, &usage);
    DAO_ASSERT(result == 0); /* fails only on misuse */
    (void)result;
    return (uint64_t)usage.ru_minflt;
}
