/* SPDX-License-Identifier: Apache-2.0 */
/* The page that a process shows of itself: whole copies beside a writer, damaged pages, forks, refusals. */
#define _GNU_SOURCE
#include <dao/dao.h>

#include "base/memory/host.h"
#include "base/memory/shared.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/scoreboard/score_source.h"
#include "runtime/scoreboard/scoreboard_thread.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t device_1 = {DAO_PLACE_KIND_DEVICE, 1};

static dao_scoreboard_t *page; /* of the test's own */
static dao_scores_t *written, *copied;
static dao_scoreboard_header_t header;

static int pages_begin(void)
{
    page = dao_host_calloc(1, sizeof(*page));
    written = dao_host_calloc(1, sizeof(*written));
    copied = dao_host_calloc(1, sizeof(*copied));
    return page == NULL || written == NULL || copied == NULL;
}

static int pages_end(void)
{
    dao_host_free(page);
    dao_host_free(written);
    dao_host_free(copied);
    return 0;
}

/* ---- pages alone ---- */

/* A round whose every value is `value`. */
static void round_of(uint64_t value, uint64_t row_count)
{
    written->time_ns = value;
    written->row_count = 0;
    written->left_out_count = 0;
    for (uint64_t i = 0; i < row_count; i++) {
        dao_score_row_t *row =
            dao_scores_add(written, i == 0 ? DAO_SCORE_KIND_PROCESS : DAO_SCORE_KIND_PLACE, device_1);
        if (row == NULL) {
            continue;
        }
        (void)snprintf(row->name, sizeof(row->name), "%llu", (unsigned long long)value);
        for (size_t k = 0; k < DAO_SCORE_VALUE_COUNT; k++) {
            row->of.values[k] = value;
        }
    }
}

static void page_begin(void)
{
    memset(page, 0, sizeof(*page));
    dao_scoreboard_init(page, 4711, 17, "cpu");
}

static dao_status_t page_read(void)
{
    return dao_scoreboard_read(page, sizeof(*page), &header, copied);
}

static void what_is_written_is_read(void)
{
    page_begin();
    CU_ASSERT_EQUAL(page_read(), DAO_ERR_NOT_READY);
    for (uint64_t value = 1; value <= 3; value++) {
        round_of(value, value * 10);
        dao_scoreboard_write(page, written);
        CU_ASSERT_EQUAL_FATAL(page_read(), DAO_OK);
        CU_ASSERT_EQUAL(copied->row_count, value * 10);
        CU_ASSERT_EQUAL(memcmp(copied->rows, written->rows, value * 10 * sizeof(written->rows[0])), 0);
    }
    CU_ASSERT_EQUAL(header.pid, 4711);
    CU_ASSERT_EQUAL(header.start_ns, 17);
    CU_ASSERT_STRING_EQUAL(header.library, dao_version());
    CU_ASSERT_STRING_EQUAL(header.backend, "cpu");
}

static void rows_without_room_are_counted(void)
{
    page_begin();
    round_of(1, DAO_SCORE_ROW_COUNT + 3);
    dao_scoreboard_write(page, written);
    CU_ASSERT_EQUAL_FATAL(page_read(), DAO_OK);
    CU_ASSERT_EQUAL(copied->row_count, DAO_SCORE_ROW_COUNT);
    CU_ASSERT_EQUAL(copied->left_out_count, 3);
}

/* Writes stay in the other half: the last whole round is read whatever has become of the next. */
static void a_writer_that_is_killed_leaves_the_last_round(void)
{
    page_begin();
    round_of(1, 20);
    dao_scoreboard_write(page, written);
    memset((void *)(uintptr_t)page->halves[0], 0xff, sizeof(page->halves[0])); /* of round 2 */
    CU_ASSERT_EQUAL_FATAL(page_read(), DAO_OK);
    CU_ASSERT_EQUAL(copied->rows[19].of.values[7], 1);
}

static void other_pages_are_refused_in_a_sentence(void)
{
    page_begin();
    round_of(1, 1);
    dao_scoreboard_write(page, written);
    page->header.version++;
    (void)snprintf(page->header.library, sizeof(page->header.library), "9.8.7\n");
    CU_ASSERT_EQUAL(page_read(), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "libdao 9.8.7?"));
    page_begin();
    page->header.executor_bytes += 8;
    CU_ASSERT_EQUAL(page_read(), DAO_ERR_UNSUPPORTED);
    page_begin();
    CU_ASSERT_EQUAL(dao_scoreboard_read(page, sizeof(*page) - 1, &header, copied), DAO_ERR_CORRUPT);
    CU_ASSERT_EQUAL(dao_scoreboard_read(page, 8, &header, copied), DAO_ERR_CORRUPT);
    page->header.magic++;
    CU_ASSERT_EQUAL(page_read(), DAO_ERR_CORRUPT);
    page->header.magic = 0; /* it is being filled */
    CU_ASSERT_EQUAL(page_read(), DAO_ERR_NOT_READY);
}

/* What was read of a damaged page can be printed. */
static void copy_check(void)
{
    CU_ASSERT_TRUE_FATAL(copied->row_count >= 1 && copied->row_count <= DAO_SCORE_ROW_COUNT);
    for (uint64_t i = 0; i < copied->row_count; i++) {
        const dao_score_row_t *row = &copied->rows[i];
        char text[DAO_PLACE_TEXT_BYTES];
        CU_ASSERT_TRUE(row->kind >= DAO_SCORE_KIND_PROCESS && row->kind < DAO_SCORE_KIND_END);
        CU_ASSERT_PTR_NULL(strchr(dao_place_format(row->place, text), '?'));
        CU_ASSERT_PTR_NOT_NULL_FATAL(memchr(row->name, '\0', sizeof(row->name)));
        for (const char *letter = row->name; *letter != '\0'; letter++) {
            CU_ASSERT_TRUE((unsigned char)*letter >= ' ');
        }
    }
}

static void damaged_pages_are_refused_or_read_safely(void)
{
    uint64_t random = dao_test_seed("damaged pages", 1);
    uint32_t read_count = 0, refused_count = 0;
    for (int i = 0; i < 2000; i++) {
        page_begin();
        round_of(1, 1 + dao_random_below(&random, 40));
        dao_scoreboard_write(page, written);
        /* where damage tells: the header, the number of the round, the first rows */
        unsigned char *half = (unsigned char *)page->halves[1];
        for (uint64_t k = dao_random_below(&random, 4); k > 0; k--) {
            bool is_front = dao_random_below(&random, 2) == 0;
            unsigned char *byte = is_front ? (unsigned char *)page + dao_random_below(&random, 128)
                                           : half + dao_random_below(&random, 3 * sizeof(dao_score_row_t));
            *byte = (unsigned char)dao_random_below(&random, 256);
        }
        if (page_read() == DAO_OK) {
            copy_check();
            read_count++;
        } else {
            CU_ASSERT_TRUE(dao_last_message()[0] != '\0');
            refused_count++;
        }
    }
    CU_ASSERT_TRUE(read_count > 100 && refused_count > 100);
}

/* ---- a reader beside a writer ---- */

#define ROUND_COUNT 20000u

static void *write_rounds(void *user)
{
    (void)user;
    for (uint64_t value = 2; value <= ROUND_COUNT; value++) {
        round_of(value, 2 + value % 3);
        dao_scoreboard_write(page, written);
    }
    return NULL;
}

static void copies_beside_a_writer_are_whole(void)
{
    dao_thread_t writer;
    uint64_t last = 0;
    page_begin();
    round_of(1, 3);
    dao_scoreboard_write(page, written);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&writer, "writer", write_rounds, NULL), DAO_OK);
    while (last < ROUND_COUNT) {
        dao_status_t status = page_read();
        if (status == DAO_ERR_BUSY) {
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
        uint64_t value = copied->time_ns;
        CU_ASSERT_TRUE(value >= last);
        CU_ASSERT_EQUAL(copied->row_count, 2 + (value == 1 ? 1 : value % 3));
        for (uint64_t i = 0; i < copied->row_count; i++) {
            CU_ASSERT_EQUAL(copied->rows[i].of.values[0], value);
            CU_ASSERT_EQUAL(copied->rows[i].of.values[DAO_SCORE_VALUE_COUNT - 1], value);
        }
        last = value;
    }
    dao_thread_join(&writer);
}

/* ---- the library's page ---- */

static const dao_scoreboard_t *shown;
static size_t shown_bytes;

static void watch_begin(void)
{
    CU_ASSERT_EQUAL(setenv("DAO_WATCH", "1", 1), 0);
    CU_ASSERT_EQUAL_FATAL(dao_init(NULL), DAO_OK);
    shown = dao_shared_look(dao_scoreboard_descriptor(), &shown_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(shown);
    copied->time_ns = 0;
}

static void watch_end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(dao_scoreboard_descriptor(), DAO_NO_DESCRIPTOR);
    dao_host_unmap((void *)(uintptr_t)shown, shown_bytes);
    CU_ASSERT_EQUAL(unsetenv("DAO_WATCH"), 0);
}

/* Reads a round that was begun after this call. */
static void round_next(void)
{
    uint64_t now_ns = dao_clock_ns();
    do {
        dao_thread_yield();
        dao_status_t status = dao_scoreboard_read(shown, shown_bytes, &header, copied);
        CU_ASSERT_TRUE_FATAL(status == DAO_OK || (status == DAO_ERR_NOT_READY && copied->time_ns == 0));
    } while (copied->time_ns < now_ns);
}

static const dao_score_row_t *row_of(dao_score_kind_t kind, dao_place_t place, const char *name)
{
    for (uint64_t i = 0; i < copied->row_count; i++) {
        const dao_score_row_t *row = &copied->rows[i];
        if (row->kind == kind && dao_place_equal(row->place, place) &&
            (name == NULL || strcmp(row->name, name) == 0)) {
            return row;
        }
    }
    return NULL;
}

/* The row that has to be there. */
static const dao_score_row_t *row_there(dao_score_kind_t kind, dao_place_t place, const char *name)
{
    static const dao_score_row_t none;
    const dao_score_row_t *row = row_of(kind, place, name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(row);
    return row != NULL ? row : &none;
}

static void places_and_tags_are_shown(void)
{
    dao_alloc_options_t options = {0};
    dao_stats_t stats;
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("weights of the board", &options.tag), DAO_OK);
    watch_begin();
    round_next();
    CU_ASSERT_EQUAL(header.pid, getpid());
    CU_ASSERT_PTR_NULL(row_of(DAO_SCORE_KIND_PLACE, device_1, NULL)); /* watching starts no device */
    void *blocks[2] = {dao_alloc_with(device_1, 3 * MIB, &options), dao_alloc(host, 70000)};
    round_next();
    const dao_score_row_t *row = row_there(DAO_SCORE_KIND_PLACE, device_1, NULL);
    CU_ASSERT_EQUAL(dao_stats_get(device_1, &stats), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(&row->of.place.stats, &stats, sizeof(stats)), 0);
    CU_ASSERT_TRUE(row->of.place.device_bytes > 0);
    row = row_there(DAO_SCORE_KIND_TAG, device_1, "weights of the board");
    CU_ASSERT_EQUAL(row->of.tag.live_count, 1);
    CU_ASSERT_TRUE(row->of.tag.used_bytes >= 3 * MIB);
    row = row_there(DAO_SCORE_KIND_PLACE, host, NULL);
    CU_ASSERT_EQUAL(row->of.place.stats.requested_bytes, 70000);
    CU_ASSERT_EQUAL(dao_free(device_1, blocks[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(host, blocks[1]), DAO_OK);
    watch_end();
}

static void executors_are_shown_while_they_live(void)
{
    dao_executor_t *executor;
    dao_executor_config_t config = {.device_index = 1, .capacity_bytes = 4 * MIB};
    watch_begin();
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    round_next();
    const dao_score_row_t *row = row_there(DAO_SCORE_KIND_EXECUTOR, device_1, NULL);
    CU_ASSERT_EQUAL(row->of.executor.capacity_bytes, 4 * MIB);
    CU_ASSERT_TRUE(row->number > 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    round_next();
    CU_ASSERT_PTR_NULL(row_of(DAO_SCORE_KIND_EXECUTOR, device_1, NULL));
    watch_end();
}

static void streams_are_counted(void)
{
    dao_stream_t *stream;
    watch_begin();
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(1, &stream), DAO_OK);
    void *block = dao_alloc_async(device_1, 1 * MIB, stream);
    CU_ASSERT_EQUAL(dao_free_async(device_1, block, stream), DAO_OK);
    round_next();
    const dao_score_row_t *row = row_there(DAO_SCORE_KIND_PLACE, device_1, NULL);
    CU_ASSERT_EQUAL(row->of.place.stream_count, 1);
    CU_ASSERT_TRUE(row->of.place.pending_stream_count <= 1);
    dao_stream_destroy(stream);
    watch_end();
}

/* ---- beside threads that work ---- */

enum { WORKER_COUNT = 3, READ_ROUNDS = 3 };

typedef struct worker {
    dao_thread_t thread;
    uint32_t tag;
    uint64_t pair_count;
    bool has_failed;
} worker_t;

static atomic_bool is_over;

static bool pairs_make(uint32_t tag, dao_stream_t *stream, size_t size_bytes)
{
    dao_alloc_options_t options = {.tag = tag};
    void *tagged = dao_alloc_with(device_1, size_bytes, &options), *plain = dao_alloc(host, size_bytes);
    void *ordered = dao_alloc_async(device_1, size_bytes, stream);
    return tagged != NULL && plain != NULL && ordered != NULL &&
           dao_free_async(device_1, ordered, stream) == DAO_OK && dao_free(host, plain) == DAO_OK &&
           dao_free(device_1, tagged) == DAO_OK;
}

static void *work(void *user)
{
    worker_t *worker = user;
    dao_stream_t *stream = NULL;
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.device_index = 1, .capacity_bytes = 1 * MIB};
    for (uint64_t i = 0; i == 0 || (!atomic_load(&is_over) && !worker->has_failed); i++) {
        worker->has_failed = dao_stream_create(1, &stream) != DAO_OK;
        worker->has_failed = worker->has_failed || dao_executor_create(&config, &executor) != DAO_OK;
        for (size_t k = 0; k < 100 && !worker->has_failed; k++) {
            worker->has_failed = !pairs_make(worker->tag, stream, 1 + (i * 100 + k) * 7919 % 100000);
            worker->pair_count += 3;
        }
        worker->has_failed = worker->has_failed || dao_executor_destroy(executor) != DAO_OK;
        dao_stream_destroy(stream);
    }
    return NULL;
}

/* A reader at the addresses that the library writes at. A race detector knows memory by its address: in a
   mapping of its own a reader meets no writer. */
typedef struct attached {
    dao_thread_t thread;
    const void *page;
    uint64_t round_count;
    bool has_failed;
} attached_t;

/* Finds where this process has its page to write. */
static const void *page_of_writer(void)
{
    char line[512];
    void *address = NULL;
    FILE *maps = fopen("/proc/self/maps", "re");
    CU_ASSERT_PTR_NOT_NULL_FATAL(maps);
    while (address == NULL && fgets(line, sizeof(line), maps) != NULL) {
        if (strstr(line, " rw-s ") != NULL && strstr(line, "/memfd:" DAO_SCOREBOARD_NAME) != NULL) {
            CU_ASSERT_EQUAL(sscanf(line, "%p", &address), 1);
        }
    }
    CU_ASSERT_EQUAL(fclose(maps), 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(address);
    return address;
}

static void *read_rounds(void *user)
{
    attached_t *reader = user;
    dao_scoreboard_header_t head;
    dao_scores_t *scores = dao_host_calloc(1, sizeof(*scores));
    uint64_t last_ns = 0;
    reader->has_failed = scores == NULL;
    while ((!atomic_load(&is_over) || reader->round_count == 0) && !reader->has_failed) {
        dao_status_t status = dao_scoreboard_read(reader->page, shown_bytes, &head, scores);
        reader->has_failed = (status != DAO_OK && status != DAO_ERR_NOT_READY) ||
                             (status == DAO_OK && scores->time_ns < last_ns);
        if (status == DAO_OK) {
            reader->round_count += scores->time_ns > last_ns;
            last_ns = scores->time_ns;
        }
        dao_thread_yield();
    }
    dao_host_free(scores);
    return NULL;
}

/* Places, tags, streams and executors come and go while rounds are written and read. */
static void it_is_read_while_threads_work(void)
{
    worker_t workers[WORKER_COUNT] = {{.tag = 0}};
    uint64_t pair_count = 0;
    atomic_store(&is_over, false);
    watch_begin();
    attached_t reader = {.page = page_of_writer()};
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&reader.thread, "reader", read_rounds, &reader), DAO_OK);
    for (size_t i = 0; i < WORKER_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_tag_create(i == 0 ? "first worker" : "others", &workers[i].tag), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&workers[i].thread, "test", work, &workers[i]), DAO_OK);
    }
    for (int i = 0; i < READ_ROUNDS; i++) {
        round_next();
        const dao_score_row_t *row = row_of(DAO_SCORE_KIND_PLACE, device_1, NULL);
        CU_ASSERT_TRUE(row == NULL || row->of.place.stats.requested_bytes <= WORKER_COUNT * 3 * MIB);
    }
    atomic_store(&is_over, true);
    dao_thread_join(&reader.thread);
    CU_ASSERT_FALSE(reader.has_failed);
    CU_ASSERT_TRUE(reader.round_count > 0);
    for (size_t i = 0; i < WORKER_COUNT; i++) {
        dao_thread_join(&workers[i].thread);
        CU_ASSERT_FALSE(workers[i].has_failed);
        pair_count += workers[i].pair_count;
    }
    round_next();
    const dao_score_row_t *row = row_there(DAO_SCORE_KIND_PLACE, device_1, NULL);
    CU_ASSERT_EQUAL(row->of.place.stats.requested_bytes, 0);
    uint64_t alloc_count = row->of.place.stats.alloc_count;
    alloc_count += row_there(DAO_SCORE_KIND_PLACE, host, NULL)->of.place.stats.alloc_count;
    CU_ASSERT_TRUE(alloc_count >= pair_count);
    CU_ASSERT_EQUAL(row_there(DAO_SCORE_KIND_TAG, device_1, "first worker")->of.tag.live_count, 0);
    CU_ASSERT_PTR_NULL(row_of(DAO_SCORE_KIND_EXECUTOR, device_1, NULL));
    watch_end();
}

static void nobody_else_can_write_it(void)
{
    char path[64];
    watch_begin();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dao_scoreboard_descriptor());
    int writer = open(path, O_RDWR | O_CLOEXEC);
    if (writer >= 0) { /* permissions do not hold root back: the seal does */
        CU_ASSERT_EQUAL(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0), MAP_FAILED);
        CU_ASSERT_EQUAL(pwrite(writer, path, 1, 0), -1);
        CU_ASSERT_EQUAL(ftruncate(writer, 0), -1);
        (void)close(writer);
    }
    int reader = open(path, O_RDONLY | O_CLOEXEC);
    CU_ASSERT_TRUE_FATAL(reader >= 0);
    (void)close(reader);
    watch_end();
}

static void a_child_keeps_nothing_of_it(void)
{
    watch_begin();
    int descriptor = dao_scoreboard_descriptor();
    pid_t child = fork();
    if (child == 0) {
        bool is_closed = fcntl(descriptor, F_GETFD) == -1;
        _exit(is_closed && dao_scoreboard_descriptor() == DAO_NO_DESCRIPTOR ? 0 : 1);
    }
    int result = 0;
    CU_ASSERT_EQUAL(waitpid(child, &result, 0), child);
    CU_ASSERT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    round_next(); /* the parent goes on */
    watch_end();
}

static void what_is_not_asked_for_is_not_there(void)
{
    CU_ASSERT_EQUAL(unsetenv("DAO_WATCH"), 0);
    CU_ASSERT_EQUAL_FATAL(dao_init(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_scoreboard_descriptor(), DAO_NO_DESCRIPTOR);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(setenv("DAO_WATCH", "yes", 1), 0);
    CU_ASSERT_EQUAL(dao_init(NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_WATCH"));
    CU_ASSERT_EQUAL(unsetenv("DAO_WATCH"), 0);
}

#if defined(DAO_FAULTS)
static void a_process_that_cannot_be_watched_works(void)
{
    for (uint64_t n = 0;; n++) {
        CU_ASSERT_EQUAL(setenv("DAO_WATCH", "1", 1), 0);
        dao_config_t config = {.log_level = DAO_LOG_LEVEL_OFF};
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        dao_status_t status = dao_init(&config);
        bool has_fired = dao_fault_disarm() > 0;
        CU_ASSERT_EQUAL(unsetenv("DAO_WATCH"), 0);
        CU_ASSERT_TRUE(has_fired || dao_scoreboard_descriptor() != DAO_NO_DESCRIPTOR);
        CU_ASSERT_TRUE(status == DAO_OK || dao_scoreboard_descriptor() == DAO_NO_DESCRIPTOR);
        if (status == DAO_OK) {
            dao_free(host, dao_alloc(host, 100));
            CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
        }
        if (!has_fired) {
            break;
        }
    }
}
#endif

static CU_TestInfo page_tests[] = {
    {"what is written is read", what_is_written_is_read},
    {"rows without room are counted", rows_without_room_are_counted},
    {"a writer that is killed leaves the last round", a_writer_that_is_killed_leaves_the_last_round},
    {"other pages are refused in a sentence", other_pages_are_refused_in_a_sentence},
    {"damaged pages are refused or read safely", damaged_pages_are_refused_or_read_safely},
    {"copies beside a writer are whole", copies_beside_a_writer_are_whole},
    CU_TEST_INFO_NULL};

static CU_TestInfo watched_tests[] = {
    {"places and tags are shown", places_and_tags_are_shown},
    {"executors are shown while they live", executors_are_shown_while_they_live},
    {"streams are counted", streams_are_counted},
    {"it is read while threads work", it_is_read_while_threads_work},
    {"nobody else can write it", nobody_else_can_write_it},
    {"a child keeps nothing of it", a_child_keeps_nothing_of_it},
    {"what is not asked for is not there", what_is_not_asked_for_is_not_there},
#if defined(DAO_FAULTS)
    {"a process that cannot be watched works", a_process_that_cannot_be_watched_works},
#endif
    CU_TEST_INFO_NULL};

int main(void)
{
    CU_SuiteInfo suites[] = {{"page", pages_begin, pages_end, NULL, NULL, page_tests},
                             {"watched", pages_begin, pages_end, NULL, NULL, watched_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
