/* SPDX-License-Identifier: Apache-2.0 */
/* `dao top [PID]`: what a running process holds, again and again; `dao metrics [PID]`: once, for
   Prometheus. */
#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "tools/commands.h"
#include "tools/print/report.h"
#include "tools/watch/look.h"

#include <stdio.h>
#include <unistd.h>

#define WATCH_HELP                                                                                           \
    "The process has to be started with DAO_WATCH=1. PID may be left out where only one is. Only\n"          \
    "processes of the same user can be looked into; they do not notice.\n"

typedef struct settings {
    bool is_once;
    bool is_json;
    uint64_t interval_ns;
} settings_t;

static const dao_option_t top_options[] = {
    {.name = "interval",
     .type = DAO_OPTION_TYPE_TIME,
     DAO_OPTION_FIELD(settings_t, interval_ns),
     .value = "TIME",
     .least = UINT64_C(100000000),
     .most = UINT64_C(3600000000000),
     .preset = "1s",
     .help = "time between two looks, over which rates are taken: 100ms to 3600s"},
    {.name = "json",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_json),
     .help = "print one JSON object, and end"},
    {.name = "once",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_once),
     .help = "print one table after one interval, and end"},
    {.name = NULL},
};

static dao_status_t check_pid(const dao_arguments_t *arguments, void *user)
{
    (void)user;
    return dao_watched_check(arguments->words[0]);
}

/* Opens the process and looks for the first time. */
static dao_status_t look_begin(const char *pid_text, dao_watched_t *watched, dao_look_t **out_look)
{
    dao_look_t *look = dao_host_calloc(1, sizeof(*look));
    if (look == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the figures of a process");
    }
    dao_status_t status = dao_watched_open(pid_text, watched);
    if (status == DAO_OK) {
        look->watched = watched;
        status = dao_look_again(look);
        if (status != DAO_OK) {
            dao_watched_close(watched);
        }
    }
    if (status != DAO_OK) {
        dao_host_free(look);
        return status;
    }
    *out_look = look;
    return DAO_OK;
}

static void look_end(dao_watched_t *watched, dao_look_t *look)
{
    dao_watched_close(watched);
    dao_host_free(look);
}

/* One screen: on a terminal over the one before. */
static void show(const dao_look_t *look, bool is_screen, bool is_first)
{
    if (is_screen) {
        (void)fputs(is_first ? "\033[2J\033[H" : "\033[H", stdout);
    } else if (!is_first) {
        (void)putchar('\n');
    }
    dao_top_print(look);
    if (is_screen) {
        (void)fputs("\033[J", stdout);
    }
    dao_output_flush();
}

static dao_status_t run_top(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    dao_watched_t watched;
    dao_look_t *look;
    dao_status_t status = look_begin(arguments->words[0], &watched, &look);
    if (status != DAO_OK) {
        return status;
    }
    bool is_once = settings->is_once || settings->is_json;
    bool is_screen = !is_once && isatty(STDOUT_FILENO) == 1;
    bool lives = true;
    for (bool is_first = true; status == DAO_OK && lives && (is_first || !is_once); is_first = false) {
        dao_sleep_until(dao_clock_ns() + settings->interval_ns);
        lives = dao_watched_lives(&watched);
        status = dao_look_again(look); /* of a process that has ended, the last figures */
        if (status == DAO_OK && settings->is_json) {
            *out_exit = dao_top_print_json(look);
        } else if (status == DAO_OK) {
            show(look, is_screen, is_first);
        }
        lives = lives && ferror(stdout) == 0;
    }
    if (status == DAO_OK && !lives && !settings->is_json && ferror(stdout) == 0) {
        (void)printf("\nprocess %d has ended\n", (int)watched.pid);
    }
    look_end(&watched, look);
    return status;
}

const dao_command_t dao_command_top = {
    .program = "dao",
    .name = "top",
    .arguments = "[PID]",
    .summary = "show what a running process holds",
    .details = "Places, tags and executors of a process, with rates, until it ends or Ctrl-C.\n" WATCH_HELP,
    .options = top_options,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_pid,
    .run = run_top,
};

static const dao_option_t metrics_options[] = {
    {.name = NULL},
};

static dao_status_t run_metrics(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    (void)user;
    (void)out_exit;
    dao_watched_t watched;
    dao_look_t *look;
    dao_status_t status = look_begin(arguments->words[0], &watched, &look);
    if (status == DAO_OK) {
        dao_metrics_print(look);
        look_end(&watched, look);
    }
    return status;
}

const dao_command_t dao_command_metrics = {
    .program = "dao",
    .name = "metrics",
    .arguments = "[PID]",
    .summary = "print what a running process holds, for Prometheus",
    .details = "Prints the figures of a process in Prometheus' text format. For node_exporter's textfile\n"
               "collector write them to a file beside NAME.prom, and rename that.\n" WATCH_HELP,
    .options = metrics_options,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_pid,
    .run = run_metrics,
};
