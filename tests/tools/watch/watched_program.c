/* SPDX-License-Identifier: Apache-2.0 */
/* A program to be watched: holds blocks that test_top.py knows, and does what a line of its input says.

       fork   a child that sleeps; prints its number
       page N shows a page instead: of another version (0), of random bytes by the seed N otherwise
       json F writes a snapshot of device 1 as JSON into a file
       look   answers, and does nothing
       tags   uses many tags at two places
       work   threads allocate and free from now on, until it ends
       exec   becomes another program, which sleeps
       end    ends, with 0 if all went well */
#define _GNU_SOURCE
#include <dao/dao.h>

#include "base/memory/shared.h"
#include "base/numbers/random.h"
#include "base/threads/sync.h"
#include "runtime/scoreboard/scoreboard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, dao_last_message());
    return 1;
}

static bool hold(void)
{
    dao_alloc_options_t options = {0};
    dao_executor_config_t config = {.capacity_bytes = 1 << 20};
    dao_executor_t *executor; /* the process ends with it */
    return dao_executor_create(&config, &executor) == DAO_OK &&
           dao_tag_create("a \"tag\" \\ of a name that is far longer than a column", &options.tag) ==
               DAO_OK &&
           dao_alloc_with(dao_device_place(1), 5 << 20, &options) != NULL &&
           dao_alloc(dao_cpu_place(), 100000) != NULL && dao_alloc(dao_pinned_place(0), 70000) != NULL;
}

/* Blocks of one size after the other, of which one is alive with its successor. */
static bool come_and_go(void)
{
    void *before = NULL;
    bool is_right = true;
    for (size_t i = 1; i <= 5 && is_right; i++) {
        void *block = dao_alloc(dao_device_place(1), i << 20);
        is_right = block != NULL && (before == NULL || dao_free(dao_device_place(1), before) == DAO_OK);
        before = block;
    }
    return is_right && dao_free(dao_device_place(1), before) == DAO_OK &&
           dao_trim(dao_device_place(1), 0, NULL) == DAO_OK;
}

static bool page_show(uint64_t seed)
{
    void *address;
    int descriptor = dao_shared_show(DAO_SCOREBOARD_NAME, sizeof(dao_scoreboard_t), &address);
    if (descriptor == DAO_NO_DESCRIPTOR) {
        return false;
    }
    dao_scoreboard_t *page = address;
    for (size_t i = 0; seed != 0 && i < sizeof(*page); i++) {
        ((unsigned char *)address)[i] = (unsigned char)dao_random_next(&seed);
    }
    dao_scoreboard_init(page, getpid(), 0, "cpu");
    page->header.version += seed == 0;
    return true;
}

static dao_status_t put(const char *bytes, size_t count, void *user)
{
    return fwrite(bytes, 1, count, user) == count ? DAO_OK : DAO_ERR_IO;
}

/* More tags at each place than have series of their own. One is called like the sum of the rest. */
static bool tags_use(void)
{
    enum { TAG_COUNT = 60 };
    char name[16];
    bool is_right = true;
    for (size_t i = 0; i < TAG_COUNT && is_right; i++) {
        dao_alloc_options_t options = {0};
        (void)snprintf(name, sizeof(name), i == 0 ? "other" : "tag %zu", i);
        size_t size_bytes = (i == 0 ? TAG_COUNT : i) << 12;
        is_right = dao_tag_create(name, &options.tag) == DAO_OK &&
                   dao_alloc_with(dao_cpu_place(), size_bytes, &options) != NULL &&
                   dao_alloc_with(dao_device_place(0), size_bytes, &options) != NULL;
    }
    return is_right && puts("tagged") >= 0 && fflush(stdout) == 0;
}

static bool json_write(const char *path)
{
    dao_snapshot_t *snapshot = NULL;
    FILE *file = fopen(path, "we");
    bool is_right = file != NULL && dao_snapshot_create(dao_device_place(1), &snapshot) == DAO_OK &&
                    dao_snapshot_write_json(snapshot, put, file) == DAO_OK;
    dao_snapshot_destroy(snapshot);
    return file != NULL && fclose(file) == 0 && is_right;
}

enum { WORKER_COUNT = 3, PAIRS_AT_ONCE = 100 };

static dao_thread_t workers[WORKER_COUNT];
static size_t worker_count;
static atomic_bool is_over, has_failed;

static void *work(void *user)
{
    (void)user;
    while (!atomic_load(&is_over)) {
        for (size_t i = 0; i < PAIRS_AT_ONCE; i++) {
            void *blocks[2] = {dao_alloc(dao_device_place(1), 1 + i * 7919),
                               dao_alloc(dao_cpu_place(), 1 + i)};
            if (blocks[0] == NULL || blocks[1] == NULL ||
                dao_free(dao_device_place(1), blocks[0]) != DAO_OK ||
                dao_free(dao_cpu_place(), blocks[1]) != DAO_OK) {
                atomic_store(&has_failed, true);
                return NULL;
            }
        }
    }
    return NULL;
}

static bool workers_start(void)
{
    for (; worker_count < WORKER_COUNT; worker_count++) {
        if (dao_thread_start(&workers[worker_count], "worker", work, NULL) != DAO_OK) {
            return false;
        }
    }
    return puts("working") >= 0 && fflush(stdout) == 0;
}

static bool workers_end(void)
{
    atomic_store(&is_over, true);
    while (worker_count > 0) {
        dao_thread_join(&workers[--worker_count]);
    }
    return !atomic_load(&has_failed);
}

static bool obey(const char *line)
{
    if (strncmp(line, "work", 4) == 0) {
        return workers_start();
    }
    if (strncmp(line, "tags", 4) == 0) {
        return tags_use();
    }
    if (strncmp(line, "fork", 4) == 0) {
        pid_t child = fork();
        if (child == 0) {
            (void)pause();
            _exit(0);
        }
        return child > 0 && printf("%d\n", (int)child) > 0 && fflush(stdout) == 0;
    }
    if (strncmp(line, "page ", 5) == 0) {
        return page_show(strtoull(line + 5, NULL, 10)) && puts("shown") >= 0 && fflush(stdout) == 0;
    }
    if (strncmp(line, "json ", 5) == 0) {
        return json_write(line + 5) && puts("written") >= 0 && fflush(stdout) == 0;
    }
    if (strncmp(line, "look", 4) == 0) {
        return puts("up") >= 0 && fflush(stdout) == 0;
    }
    if (strncmp(line, "exec", 4) == 0) {
        (void)execlp("sh", "sh", "-c", "echo there; read line", (char *)NULL);
    }
    return false;
}

int main(int argc, char **argv)
{
    bool is_library = argc < 2 || strcmp(argv[1], "page") != 0;
    if (is_library && (dao_init(NULL) != DAO_OK || !come_and_go() || !hold())) {
        return fail("start");
    }
    (void)puts("ready");
    (void)fflush(stdout);
    char line[4096];
    while (fgets(line, sizeof(line), stdin) != NULL && strncmp(line, "end", 3) != 0) {
        line[strcspn(line, "\n")] = '\0';
        if (!obey(line)) {
            return fail(line);
        }
    }
    if (!workers_end()) {
        return fail("work");
    }
    return !is_library || dao_finalize() == DAO_ERR_BUSY ? 0 : fail("finalize"); /* what it holds is live */
}
