/* SPDX-License-Identifier: Apache-2.0 */
/* A process for each seed, on one processor: the baton changes hands fastest there. */
#define _GNU_SOURCE
#include "tests/scheduler/search.h"

#include "base/numbers/random.h"
#include "base/threads/sync.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a run's process tells its parent. */
static baton_result_t *shared;

/* The scenario and seed of this process. */
static const scenario_t *running;
static uint64_t running_seed;

void search_prepare(char **arguments)
{
    int persona = personality(0xffffffff); /* asks */
    if (persona != -1 && (persona & ADDR_NO_RANDOMIZE) == 0 &&
        personality((unsigned long)persona | ADDR_NO_RANDOMIZE) != -1) {
        (void)execv("/proc/self/exe", arguments); /* where it fails, seeds still find what they find */
    }
    (void)mallopt(M_ARENA_MAX, 1); /* one thread runs at a time: a heap for each would only be mapped */
    baton_prepare();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        abort();
    }
}

static uint64_t generator_of(uint64_t seed, uint32_t thread)
{
    return dao_random_mix(seed * (SCENARIO_THREAD_MAX + 1) + thread + 1);
}

static void *part_main(void *user)
{
    uint32_t thread = *(const uint32_t *)user;
    uint64_t random = generator_of(running_seed, thread);
    running->part(running->program, thread, &random);
    return NULL;
}

/* Thread 0 runs its part in between the starts and the ends of the others. */
static void run_parts(void)
{
    dao_thread_t threads[SCENARIO_THREAD_MAX];
    uint32_t numbers[SCENARIO_THREAD_MAX];
    for (uint32_t i = 0; i < running->thread_count; i++) {
        numbers[i] = i;
        if (i > 0) {
            BATON_CHECK(dao_thread_start(&threads[i], "part", part_main, &numbers[i]) == DAO_OK);
        }
    }
    (void)part_main(&numbers[0]);
    for (uint32_t i = 1; i < running->thread_count; i++) {
        dao_thread_join(&threads[i]);
    }
}

static void stay_on_one_processor(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    (void)sched_setaffinity(0, sizeof(set), &set); /* it is only faster */
}

_Noreturn static void run_here(const scenario_t *scenario, const baton_config_t *config, bool is_quiet)
{
    if (is_quiet) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(nowhere, STDERR_FILENO);
    }
    stay_on_one_processor();
    running = scenario;
    running_seed = config->seed;
    uint64_t random = generator_of(config->seed, SCENARIO_THREAD_MAX);
    baton_begin(config);
    if (scenario->begin != NULL) {
        scenario->begin(scenario->program, &random);
    }
    run_parts();
    if (scenario->end != NULL) {
        scenario->end(scenario->program);
    }
    baton_end(shared);
    _exit(0);
}

/* Returns what waitpid() says. */
static int run_apart(const scenario_t *scenario, const baton_config_t *config, bool is_quiet)
{
    memset(shared, 0, sizeof(*shared));
    pid_t child = fork();
    if (child == 0) {
        run_here(scenario, config, is_quiet);
    }
    int status = -1;
    if (child == -1 || waitpid(child, &status, 0) != child) {
        abort();
    }
    return status;
}

void search_run(const scenario_t *scenario, const search_t *search, search_result_t *out_result)
{
    *out_result = (search_result_t){0};
    baton_config_t config = {.defect = search->defect, .rank = search->rank};
    if (run_apart(scenario, &config, search->is_quiet) == 0) {
        config.event_count = (uint32_t)shared->contended_count;
    }
    for (uint64_t i = 0; i < search->count && !out_result->has_found; i++) {
        config.seed = search->first_seed + i;
        int status = run_apart(scenario, &config, search->is_quiet);
        out_result->run_count++;
        out_result->contended_count += shared->contended_count;
        out_result->hash = dao_random_mix(out_result->hash ^ shared->hash);
        if (status != 0) {
            out_result->has_found = true;
            out_result->found_seed = config.seed;
            out_result->exit_status = status;
        }
    }
}
