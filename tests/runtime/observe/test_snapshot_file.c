/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots that are written without a call: when a request is refused, and on a signal. */
#define _GNU_SOURCE
#include <dao/dao.h>

#include "base/threads/sync.h"
#include "runtime/observe/snapshot_file.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0}, pinned = {DAO_PLACE_KIND_PINNED, 0};
static char folder[] = "/tmp/dao-snapshots-XXXXXX";
static int log_count;             /* lines about snapshots */
static char logged[512];          /* the latest one */
static bool refuses_while_logged; /* the log's callback asks for too much as well */

static void log_line(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    if (strstr(message, "snapshot of ") == NULL) {
        return;
    }
    log_count++;
    (void)snprintf(logged, sizeof(logged), "%s", message);
    if (refuses_while_logged) {
        CU_ASSERT_PTR_NULL(dao_alloc(device, 512 * MIB));
    }
}

static void setting(const char *name, const char *format, const char *text)
{
    char value[256];
    (void)snprintf(value, sizeof(value), format, text);
    CU_ASSERT_EQUAL(setenv(name, value, 1), 0);
}

static dao_status_t library_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}, .log_callback = log_line};
    log_count = 0;
    return dao_init(&config);
}

static void library_end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    refuses_while_logged = false;
    CU_ASSERT_EQUAL(unsetenv("DAO_ON_OOM"), 0);
    CU_ASSERT_EQUAL(unsetenv("DAO_SNAPSHOT_SIGNAL"), 0);
    CU_ASSERT_EQUAL(unsetenv("DAO_SNAPSHOT_FILE"), 0);
}

static void be_refused(void)
{
    CU_ASSERT_PTR_NULL(dao_alloc(device, 512 * MIB));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "536870912"));
}

/* Removes a file of the folder. Returns true if it was there, with a pickle in it. */
static bool has_pickle(const char *name)
{
    char path[256];
    unsigned char bytes[2] = {0};
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rbe");
    bool is_pickle = false;
    if (file != NULL) {
        is_pickle = fread(bytes, 1, 2, file) == 2 && bytes[0] == 0x80 && bytes[1] == 2 &&
                    fseek(file, -1, SEEK_END) == 0 && fgetc(file) == '.';
        (void)fclose(file);
    }
    if (is_pickle) { /* a part of one is still being written */
        CU_ASSERT_EQUAL(unlink(path), 0);
    }
    return is_pickle;
}

static void the_first_refusal_is_written(void)
{
    setting("DAO_ON_OOM", "snapshot:%s/oom", folder);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    void *block = dao_alloc(device, 1 * MIB);
    be_refused();
    CU_ASSERT_TRUE(has_pickle("oom"));
    be_refused();
    CU_ASSERT_FALSE(has_pickle("oom"));
    CU_ASSERT_EQUAL(log_count, 1);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    library_end();
}

static void numbered_files_are_written_up_to_a_limit(void)
{
    setting("DAO_ON_OOM", "snapshot:%s/%%l-%%n%%%%", folder);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    for (int i = 1; i <= DAO_SNAPSHOT_REFUSAL_COUNT_MAX + 2; i++) {
        char name[32];
        be_refused();
        (void)snprintf(name, sizeof(name), "device0-%d%%", i);
        CU_ASSERT_EQUAL(has_pickle(name), i <= DAO_SNAPSHOT_REFUSAL_COUNT_MAX);
    }
    library_end();
}

static void refusals_while_one_is_written_are_not(void)
{
    setting("DAO_ON_OOM", "snapshot:%s/%%n", folder);
    refuses_while_logged = true;
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    be_refused();
    CU_ASSERT_TRUE(has_pickle("1"));
    CU_ASSERT_FALSE(has_pickle("2"));
    library_end();
}

static void files_that_cannot_be_written_are_logged(void)
{
    setting("DAO_ON_OOM", "snapshot:%s/none/oom", folder);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    be_refused();
    CU_ASSERT_EQUAL(log_count, 1);
    library_end();
    setting("DAO_ON_OOM", "snapshot:%s", "/dev/full");
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    be_refused();
    CU_ASSERT_EQUAL(log_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, "/dev/full"));
    library_end();
}

/* A write beyond the limit of file sizes would end the process. */
static void a_file_that_may_not_grow_is_logged(void)
{
    struct rlimit before;
    char path[256];
    setting("DAO_ON_OOM", "snapshot:%s/oom", folder);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    void *block = dao_alloc(device, 1 * MIB);
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &before), 0);
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, before.rlim_max}), 0);
    be_refused();
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &before), 0);
    CU_ASSERT_EQUAL(log_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, strerror(EFBIG)));
    CU_ASSERT_FALSE(has_pickle("oom"));
    (void)snprintf(path, sizeof(path), "%s/oom", folder);
    CU_ASSERT_EQUAL(unlink(path), 0); /* empty */
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    library_end();
}

static void a_signal_writes_every_place_in_use(void)
{
    char path[256];
    setting("DAO_SNAPSHOT_SIGNAL", "%s", "SIGUSR1");
    setting("DAO_SNAPSHOT_FILE", "%s/signal-%%l-%%n", folder);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    void *block = dao_alloc(device, 1 * MIB), *pinned_block = NULL;
    for (int i = 1; i <= 3; i++) {
        CU_ASSERT_EQUAL(raise(SIGUSR1), 0);
        (void)snprintf(path, sizeof(path), "signal-%s0-%d", i < 3 ? "device" : "pinned", i);
        while (!has_pickle(path)) { /* the last of them */
            dao_thread_yield();
        }
        CU_ASSERT_TRUE(i < 3 || has_pickle("signal-device0-3"));
        if (i == 2) { /* so the first round is over */
            CU_ASSERT_FALSE(has_pickle("signal-pinned0-1"));
            pinned_block = dao_alloc(pinned, 1 * MIB);
        }
    }
    CU_ASSERT_EQUAL(dao_free(pinned, pinned_block), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    library_end();
    struct sigaction action;
    CU_ASSERT_EQUAL(sigaction(SIGUSR1, NULL, &action), 0);
    CU_ASSERT_EQUAL(action.sa_handler, SIG_DFL);
}

static void own_handler(int number)
{
    (void)number;
}

static void a_handler_of_the_program_stays(void)
{
    struct sigaction action = {.sa_handler = own_handler}, now;
    CU_ASSERT_EQUAL(sigaction(SIGUSR2, &action, NULL), 0);
    setting("DAO_SNAPSHOT_SIGNAL", "%s", "USR2");
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    CU_ASSERT_EQUAL(sigaction(SIGUSR2, NULL, &now), 0);
    CU_ASSERT_EQUAL(now.sa_handler, own_handler);
    library_end();
    CU_ASSERT_EQUAL(sigaction(SIGUSR2, NULL, &now), 0);
    CU_ASSERT_EQUAL(now.sa_handler, own_handler);
}

static void wrong_settings_are_refused(void)
{
    static const char *const wrong[][2] = {
        {"DAO_ON_OOM", "yes"},          {"DAO_ON_OOM", "snapshot:"},     {"DAO_ON_OOM", "snapshot:a%"},
        {"DAO_ON_OOM", "snapshot:a%d"}, {"DAO_SNAPSHOT_SIGNAL", "KILL"}, {"DAO_SNAPSHOT_SIGNAL", "10"},
        {"DAO_HISTORY", "-1"},          {"DAO_HISTORY", "99999999"},     {"DAO_HISTORY", "x"},
        {"DAO_HISTORY", "5x"},          {"DAO_HISTORY", " 5"},           {"DAO_HISTORY", "+5"}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        setting(wrong[i][0], "%s", wrong[i][1]);
        CU_ASSERT_EQUAL(library_start(), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), wrong[i][0]));
        CU_ASSERT_EQUAL(unsetenv(wrong[i][0]), 0);
    }
}

static int folder_begin(void)
{
    return mkdtemp(folder) == NULL;
}

static int folder_end(void)
{
    return rmdir(folder);
}

static CU_TestInfo tests[] = {
    {"the first refusal is written", the_first_refusal_is_written},
    {"numbered files are written up to a limit", numbered_files_are_written_up_to_a_limit},
    {"refusals while one is written are not", refusals_while_one_is_written_are_not},
    {"files that cannot be written are logged", files_that_cannot_be_written_are_logged},
    {"a file that may not grow is logged", a_file_that_may_not_grow_is_logged},
    {"a signal writes every place in use", a_signal_writes_every_place_in_use},
    {"a handler of the program stays", a_handler_of_the_program_stays},
    {"wrong settings are refused", wrong_settings_are_refused},
    CU_TEST_INFO_NULL};

int main(void)
{
    CU_SuiteInfo suites[] = {{"snapshot files", folder_begin, folder_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
