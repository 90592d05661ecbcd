/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the process: starts and stops, settings, the environment, forks, signals, damage. */
#define _GNU_SOURCE
#include "tests/misuse/misuse.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void finalize_before_any_start(void)
{
    REFUSED(dao_finalize(), DAO_ERR_SHUTDOWN, "not started");
}

static void finalize_twice(void)
{
    NEED(dao_init(NULL) == DAO_OK && dao_finalize() == DAO_OK);
    REFUSED(dao_finalize(), DAO_ERR_SHUTDOWN, "not started");
}

static void use_after_finalize(void)
{
    dao_stream_t *stream = NULL;
    dao_memory_t *memory = NULL;
    dao_executor_t *executor = NULL;
    NEED(dao_init(NULL) == DAO_OK && dao_finalize() == DAO_OK);
    REFUSED_NULL(dao_alloc(misuse_device, 100), DAO_ERR_SHUTDOWN, "dao_init()");
    REFUSED(dao_free(misuse_device, &memory), DAO_ERR_SHUTDOWN, "dao_init()");
    REFUSED(dao_stream_create(0, &stream), DAO_ERR_SHUTDOWN, "dao_init()");
    REFUSED(dao_memory_create(misuse_device, 1, NULL, &memory), DAO_ERR_SHUTDOWN, "dao_init()");
    REFUSED(dao_executor_create(NULL, &executor), DAO_ERR_SHUTDOWN, "dao_init()");
    REFUSED(dao_stats_get(misuse_device, &(dao_stats_t){0}), DAO_ERR_SHUTDOWN, "dao_init()");
    NEED(stream == NULL && memory == NULL && executor == NULL);
}

static void block_freed_after_finalize(void)
{
    NEED(dao_init(NULL) == DAO_OK);
    void *block = dao_alloc(misuse_device, 1000);
    NEED(block != NULL && dao_finalize() == DAO_ERR_BUSY);
    REFUSED(dao_free(misuse_device, block), DAO_ERR_SHUTDOWN, "dao_init()");
}

static void settings_that_differ(void)
{
    dao_config_t config = {.cpu = {.device_count = 3}};
    misuse_begin();
    REFUSED(dao_init(&config), DAO_ERR_BUSY, "cpu.device_count is 3");
    config = (dao_config_t){.hardening = DAO_HARDENING_GUARD};
    REFUSED(dao_init(&config), DAO_ERR_BUSY, "hardening");
}

static void settings_that_are_none(void)
{
    dao_config_t config = {.cpu = {.device_count = -1}};
    REFUSED(dao_init(&config), DAO_ERR_INVALID, "device");
    config = (dao_config_t){.log_level = (dao_log_level_t)77};
    REFUSED(dao_init(&config), DAO_ERR_INVALID, "log_level is 77");
    config = (dao_config_t){.hardening = 1u << 30};
    REFUSED(dao_init(&config), DAO_ERR_INVALID, "hardening");
    config = (dao_config_t){.device_strategy = (dao_strategy_t)99};
    REFUSED(dao_init(&config), DAO_ERR_INVALID, "99");
}

/* The environment of the case has a value that is none. */
static void start_refused(const char *text)
{
    REFUSED(dao_init(NULL), DAO_ERR_INVALID, text);
    REFUSED_NULL(dao_alloc(misuse_host, 100), DAO_ERR_INVALID, text);
}

static void environment_log(void)
{
    start_refused("DAO_LOG is \"loud\"");
}

static void environment_devices(void)
{
    start_refused("DAO_CPU_DEVICES");
}

static void environment_devices_unread(void)
{
    start_refused("DAO_CPU_DEVICES: \"-1\" is no whole number");
}

/* The default may be written. */
static void environment_hardening_none(void)
{
    NEED(dao_init(NULL) == DAO_OK && dao_finalize() == DAO_OK);
}

static void environment_bytes(void)
{
    start_refused("DAO_CPU_DEVICE_BYTES");
}

static void environment_strategy(void)
{
    start_refused("DAO_STRATEGY");
}

static void environment_hardening(void)
{
    start_refused("DAO_HARDENING");
}

static void environment_limit(void)
{
    start_refused("DAO_HOST_LIMIT");
}

static void environment_step_plan(void)
{
    start_refused("DAO_STEP_PLAN");
}

static void environment_unknown(void)
{
    NEED(dao_init(NULL) == DAO_OK);
}

static void written_after_free(void)
{
    misuse_begin();
    char *block = dao_alloc(misuse_host, 1000);
    NEED(block != NULL && dao_free(misuse_host, block) == DAO_OK);
    block[10] = 1; /* the quarantine keeps it mapped */
    REFUSED(dao_hardening_check(misuse_host), DAO_ERR_CORRUPT, "offset 10");
}

/* ---- forks ---- */

static void child_uses_the_library(void *block, dao_stream_t *stream)
{
    dao_memory_t *memory = NULL;
    NEED(dao_alloc(misuse_device, 100) == NULL && dao_last_status() == DAO_ERR_FORKED);
    NEED(dao_free(misuse_device, block) == DAO_ERR_FORKED);
    NEED(dao_stream_synchronize(stream) == DAO_ERR_FORKED);
    NEED(dao_memory_create(misuse_host, 100, NULL, &memory) == DAO_ERR_FORKED);
    NEED(dao_init(NULL) == DAO_ERR_FORKED && dao_finalize() == DAO_ERR_FORKED);
    NEED(strstr(dao_last_message(), "parent process") != NULL);
    dao_stream_destroy(stream);
}

static void forked_child(void)
{
    int status = -1;
    dao_stream_t *stream;
    misuse_begin();
    void *block = dao_alloc(misuse_device, 100);
    NEED(dao_stream_create(0, &stream) == DAO_OK);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        child_uses_the_library(block, stream);
        _exit(0);
    }
    NEED(waitpid(child, &status, 0) == child && status == 0);
    dao_stream_destroy(stream);
    NEED(dao_free(misuse_device, block) == DAO_OK);
}

/* ---- signals ---- */

static volatile sig_atomic_t signal_count;

static void note_signal(int number)
{
    (void)number;
    signal_count = signal_count + 1;
}

/* A timer interrupts whatever waits, a thousand times a second of the process's time, until it was seen. */
static void signals_meanwhile(void)
{
    struct sigaction action = {.sa_handler = note_signal}; /* without SA_RESTART */
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    dao_stream_t *stream;
    misuse_begin();
    NEED(dao_stream_create(0, &stream) == DAO_OK);
    NEED(sigaction(SIGPROF, &action, NULL) == 0 && setitimer(ITIMER_PROF, &timer, NULL) == 0);
    while (signal_count < 20) {
        char *block = dao_alloc_async(misuse_device, 3 * MIB, stream);
        NEED(block != NULL && dao_stream_fill(stream, block, 1, 3 * MIB) == DAO_OK);
        NEED(dao_stream_synchronize(stream) == DAO_OK && block[3 * MIB - 1] == 1);
        NEED(dao_free_async(misuse_device, block, stream) == DAO_OK);
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    NEED(setitimer(ITIMER_PROF, &timer, NULL) == 0);
    dao_stream_destroy(stream);
}

const misuse_case_t misuse_process_cases[] = {
    {.name = "finalize_before_any_start", .run = finalize_before_any_start},
    {.name = "finalize_twice", .run = finalize_twice},
    {.name = "use_after_finalize", .run = use_after_finalize},
    {.name = "block_freed_after_finalize", .run = block_freed_after_finalize, .says = "1000 asked for"},
    {.name = "settings_that_differ", .run = settings_that_differ},
    {.name = "settings_that_are_none", .run = settings_that_are_none},
    {.name = "environment_log", .run = environment_log, .environment = "DAO_LOG=loud"},
    {.name = "environment_devices", .run = environment_devices, .environment = "DAO_CPU_DEVICES=0"},
    {.name = "environment_devices_unread",
     .run = environment_devices_unread,
     .environment = "DAO_CPU_DEVICES=-1"},
    {.name = "environment_hardening_none",
     .run = environment_hardening_none,
     .environment = "DAO_HARDENING=none"},
    {.name = "environment_bytes", .run = environment_bytes, .environment = "DAO_CPU_DEVICE_BYTES=4Gibi"},
    {.name = "environment_strategy", .run = environment_strategy, .environment = "DAO_STRATEGY=worst"},
    {.name = "environment_hardening", .run = environment_hardening, .environment = "DAO_HARDENING=guards"},
    {.name = "environment_limit", .run = environment_limit, .environment = "DAO_HOST_LIMIT=-1"},
    {.name = "environment_step_plan", .run = environment_step_plan, .environment = "DAO_STEP_PLAN=yes"},
    {.name = "environment_unknown",
     .run = environment_unknown,
     .environment = "DAO_HARDENNING=guard",
     .says = "the nearest is DAO_HARDENING"},
    {.name = "written_after_free",
     .run = written_after_free,
     .environment = "DAO_HARDENING=quarantine",
     .end = DAO_ERR_CORRUPT,
     .says = "written after its free"},
    {.name = "forked_child", .run = forked_child},
    {.name = "signals_meanwhile", .run = signals_meanwhile},
    {.name = NULL},
};
