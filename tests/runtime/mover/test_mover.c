/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program's own that leaves and comes back: contents, order, limits, failures, releases. */
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *directory;
static dao_mover_t *mover;

static int start(void)
{
    directory = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    return dao_init(NULL) == DAO_OK ? 0 : 1;
}

static int stop(void)
{
    return dao_finalize() == DAO_OK ? 0 : 1;
}

static void open_mover(uint64_t pinned_bytes, uint64_t file_bytes)
{
    dao_mover_config_t config = {.pinned_bytes = pinned_bytes,
                                 .directory = file_bytes != 0 ? directory : NULL,
                                 .file_bytes = file_bytes};
    CU_ASSERT_EQUAL_FATAL(dao_mover_create(&config, &mover), DAO_OK);
}

static dao_mover_stats_t stats(void)
{
    dao_mover_stats_t figures = {0};
    CU_ASSERT_EQUAL(dao_mover_stats_get(mover, &figures), DAO_OK);
    return figures;
}

static void fill(char *bytes, size_t size_bytes, uint64_t seed)
{
    for (size_t i = 0; i < size_bytes; i++) {
        bytes[i] = (char)(dao_random_next(&seed) & 0x7f);
    }
}

/* Moves bytes out, loses them, and brings them back to another address. */
static void there_and_back(size_t size_bytes, uint64_t seed)
{
    static char source[4 * MIB], copy[4 * MIB], target[4 * MIB];
    CU_ASSERT_FATAL(size_bytes <= sizeof(source));
    memset(target, 0, sizeof(target));
    fill(source, size_bytes, seed);
    memcpy(copy, source, size_bytes);
    dao_parked_t *parked = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, source, size_bytes, &parked), DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
    memset(source, 0xee, size_bytes);
    for (int i = 0; i < 2; i++) { /* what came back once is still parked */
        CU_ASSERT_EQUAL(dao_mover_in(mover, parked, target), DAO_OK);
        CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
        CU_ASSERT_EQUAL(memcmp(target, copy, size_bytes), 0);
        memset(target, 0, size_bytes);
    }
    dao_parked_release(parked);
}

static void bytes_come_back_from_both_tiers(void)
{
    const struct {
        uint64_t pinned_bytes, file_bytes;
    } tiers[] = {{64 * MIB, 0}, {0, 64 * MIB}, {MIB, 64 * MIB}};
    const size_t sizes[] = {1, 255, 4096, 4097, 3 * MIB + 5};
    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
        open_mover(tiers[i].pinned_bytes, tiers[i].file_bytes);
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            there_and_back(sizes[j], 100 * i + j);
        }
        dao_mover_stats_t figures = stats();
        CU_ASSERT_EQUAL(figures.parked_count, 0);
        CU_ASSERT_EQUAL(figures.pinned_bytes, 0);
        CU_ASSERT_EQUAL(figures.file_bytes, 0);
        CU_ASSERT_EQUAL(figures.directions[DAO_MOVE_OUT].done_count, 5);
        CU_ASSERT_EQUAL(figures.directions[DAO_MOVE_IN].done_count, 10);
        CU_ASSERT_EQUAL(dao_mover_done(mover, DAO_MOVE_IN), 10);
        CU_ASSERT_EQUAL(figures.directions[DAO_MOVE_IN].moved_bytes,
                        2 * figures.directions[DAO_MOVE_OUT].moved_bytes);
        dao_mover_destroy(mover);
    }
}

static void a_way_in_follows_its_way_out(void)
{
    open_mover(0, 64 * MIB);
    enum { COUNT = 8 };
    static char source[COUNT * MIB], target[COUNT * MIB];
    memset(target, 0, sizeof(target));
    fill(source, COUNT * MIB, 7);
    dao_parked_t *parked[COUNT];
    for (int i = 0; i < COUNT; i++) { /* nothing is waited for: the last is asked back first */
        CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, source + (size_t)i * MIB, MIB, &parked[i]), DAO_OK);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        CU_ASSERT_EQUAL(dao_mover_in(mover, parked[i], target + (size_t)i * MIB), DAO_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL(dao_parked_wait(parked[i]), DAO_OK);
        dao_parked_release(parked[i]);
    }
    CU_ASSERT_EQUAL(memcmp(source, target, COUNT * MIB), 0);
    dao_mover_destroy(mover);
}

/* Without a file, and with one that has no room. */
static void what_the_place_refuses_is_told(void)
{
    static char bytes[MIB];
    const dao_place_t place = dao_place_of(dao_pinned_place(0));
    for (uint64_t file_bytes = 0; file_bytes <= MIB / 2; file_bytes += MIB / 2) {
        dao_parked_t *parked = NULL;
        open_mover(8 * MIB, file_bytes);
        CU_ASSERT_EQUAL_FATAL(dao_limit_set(place, MIB / 2), DAO_OK);
        CU_ASSERT_EQUAL(dao_mover_out(mover, bytes, MIB, &parked),
                        file_bytes == 0 ? DAO_ERR_LIMIT : DAO_ERR_HOST_FULL);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_mover_out: "));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "limit 524288"));
        CU_ASSERT_PTR_NULL(parked);
        CU_ASSERT_EQUAL(dao_limit_set(place, 0), DAO_OK);
        CU_ASSERT_EQUAL(stats().pinned_bytes, 0);
        dao_mover_destroy(mover);
    }
}

static void pinned_memory_comes_first_and_what_has_no_room_is_refused(void)
{
    open_mover(2 * MIB, MIB);
    static char bytes[2 * MIB];
    dao_parked_t *pinned, *in_file, *refused = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, bytes, 2 * MIB, &pinned), DAO_OK);
    CU_ASSERT_EQUAL(stats().pinned_bytes, 2 * MIB);
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, bytes, MIB, &in_file), DAO_OK);
    CU_ASSERT_EQUAL(stats().file_bytes, MIB);
    CU_ASSERT_EQUAL(dao_mover_out(mover, bytes, 1, &refused), DAO_ERR_HOST_FULL);
    CU_ASSERT_PTR_NULL(refused);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "2097152 of 2097152 bytes in use"));
    dao_parked_release(pinned); /* still under way, perhaps: it goes when that has ended */
    CU_ASSERT_EQUAL(dao_parked_wait(in_file), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, bytes, 1, &refused), DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(refused), DAO_OK);
    CU_ASSERT_EQUAL(stats().parked_count, 2);
    dao_mover_destroy(mover); /* with two of them parked */
}

/* The limit of the place itself leaves less than the mover may take: the file has what does not fit. */
static void what_the_place_refuses_goes_to_the_file(void)
{
    dao_place_t place = dao_place_of(dao_pinned_place(0));
    static char bytes[MIB], copy[MIB];
    dao_parked_t *parked;
    open_mover(8 * MIB, 8 * MIB);
    fill(bytes, MIB, 4);
    memcpy(copy, bytes, MIB);
    CU_ASSERT_EQUAL_FATAL(dao_limit_set(place, MIB / 2), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, bytes, MIB, &parked), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(place, 0), DAO_OK);
    CU_ASSERT_EQUAL(stats().pinned_bytes, 0); /* what was set aside is given back */
    CU_ASSERT_EQUAL(stats().file_bytes, MIB);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
    memset(bytes, 0, MIB);
    CU_ASSERT_EQUAL(dao_mover_in(mover, parked, bytes), DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, copy, MIB), 0);
    dao_parked_release(parked);
    dao_mover_destroy(mover);
}

static void a_refused_write_is_told_and_the_source_stays(void)
{
    open_mover(0, 8 * MIB);
    static char bytes[MIB], copy[MIB];
    fill(bytes, MIB, 3);
    memcpy(copy, bytes, MIB);
    dao_fault_arm(DAO_FAULT_FILE_WRITE, 0, false);
    dao_parked_t *parked;
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, bytes, MIB, &parked), DAO_OK);
    dao_status_t status = dao_parked_wait(parked);
    bool has_failed = dao_fault_disarm() > 0; /* builds without fault points see no failure */
    CU_ASSERT_EQUAL(status != DAO_OK, has_failed);
    CU_ASSERT_EQUAL(memcmp(bytes, copy, MIB), 0);
    if (has_failed) {
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "a move of 1048576 bytes failed"));
        CU_ASSERT_NOT_EQUAL(dao_mover_in(mover, parked, bytes), DAO_OK);
        CU_ASSERT_EQUAL(stats().directions[DAO_MOVE_OUT].failed_count, 1);
    }
    dao_parked_release(parked);
    there_and_back(MIB, 4); /* the next one works */
    dao_mover_destroy(mover);
}

static void a_refused_read_can_be_tried_again(void)
{
    open_mover(0, 8 * MIB);
    static char bytes[MIB], target[MIB];
    fill(bytes, MIB, 5);
    dao_parked_t *parked;
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, bytes, MIB, &parked), DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
    dao_fault_arm(DAO_FAULT_FILE_READ, 0, false);
    CU_ASSERT_EQUAL(dao_mover_in(mover, parked, target), DAO_OK);
    dao_status_t status = dao_parked_wait(parked);
    bool has_failed = dao_fault_disarm() > 0;
    CU_ASSERT_EQUAL(status, has_failed ? DAO_ERR_IO : DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), status); /* until the next try */
    CU_ASSERT_EQUAL(dao_mover_in(mover, parked, target), DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, target, MIB), 0);
    dao_parked_release(parked);
    dao_mover_destroy(mover);
}

static void bad_arguments_are_refused(void)
{
    dao_mover_config_t nowhere = {0}, missing = {.directory = "/nowhere/at/all"};
    dao_mover_t *none = NULL;
    CU_ASSERT_EQUAL(dao_mover_create(NULL, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_create(&nowhere, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_create(&nowhere, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_create(&missing, &none), DAO_ERR_IO);
    dao_mover_config_t no_device = {.pinned_bytes = MIB, .pinned_device = 4000};
    CU_ASSERT_EQUAL(dao_mover_create(&no_device, &none), DAO_ERR_NO_DEVICE);
    dao_mover_config_t no_file = {.pinned_bytes = MIB, .file_bytes = MIB};
    CU_ASSERT_EQUAL(dao_mover_create(&no_file, &none), DAO_ERR_INVALID);
    no_file = (dao_mover_config_t){.pinned_bytes = MIB, .file_engine = DAO_FILE_ENGINE_THREADS};
    CU_ASSERT_EQUAL(dao_mover_create(&no_file, &none), DAO_ERR_INVALID);
    const int no_engines[] = {-1, 77};
    for (size_t i = 0; i < sizeof(no_engines) / sizeof(*no_engines); i++) {
        dao_mover_config_t no_engine = {.directory = ".", .file_engine = (dao_file_engine_t)no_engines[i]};
        CU_ASSERT_EQUAL(dao_mover_create(&no_engine, &none), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_mover_create: file engine"));
    }
    CU_ASSERT_PTR_NULL(none);
    open_mover(MIB, 0);
    char byte = 1;
    dao_parked_t *parked = NULL;
    dao_mover_stats_t figures;
    CU_ASSERT_EQUAL(dao_mover_out(mover, &byte, 0, &parked), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_out(mover, &byte, SIZE_MAX, &parked), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_out(mover, NULL, 1, &parked), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_out(NULL, &byte, 1, &parked), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_out(mover, &byte, 1, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_in(mover, NULL, &byte), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_parked_wait(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_stats_get(mover, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_stats_get(NULL, &figures), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_done(NULL, DAO_MOVE_OUT), 0);
    CU_ASSERT_EQUAL(dao_mover_done(mover, DAO_MOVE_DIRECTION_COUNT), 0);
    dao_parked_release(NULL);
    dao_mover_destroy(NULL);
    dao_mover_destroy(mover);
}

static int refused_count;

/* In a segment callback, under an allocator's lock. */
static void use_the_mover(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                          void *user)
{
    (void)place;
    (void)event;
    (void)address;
    (void)size_bytes;
    dao_parked_t *parked = user, *other = NULL;
    char byte = 1;
    CU_ASSERT_EQUAL(dao_mover_out(mover, &byte, 1, &other), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_mover_in(mover, parked, &byte), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_parked_release(parked), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_mover_destroy(mover), DAO_ERR_REENTRANT);
    refused_count++;
}

static void in_a_segment_callback_nothing_ends(void)
{
    char source = 9, target = 0;
    uint64_t id;
    dao_parked_t *parked;
    open_mover(0, MIB);
    refused_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, &source, 1, &parked), DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(dao_pinned_place(0), 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_segment_callback_add(dao_pinned_place(0), use_the_mover, parked, &id), DAO_OK);
    void *block = dao_alloc(dao_pinned_place(0), MIB);
    CU_ASSERT_EQUAL(dao_free(dao_pinned_place(0), block), DAO_OK);
    CU_ASSERT_EQUAL(dao_segment_callback_remove(id), DAO_OK);
    CU_ASSERT_TRUE(refused_count > 0);
    CU_ASSERT_EQUAL(dao_mover_in(mover, parked, &target), DAO_OK); /* all is as before */
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
    CU_ASSERT_EQUAL(target, source);
    CU_ASSERT_EQUAL(stats().parked_count, 1);
    dao_parked_release(parked);
    dao_mover_destroy(mover);
}

static void bytes_of_another_mover_are_refused(void)
{
    dao_mover_config_t config = {.pinned_bytes = MIB};
    dao_mover_t *other = NULL;
    dao_parked_t *parked = NULL;
    char byte = 7, target = 0;
    open_mover(MIB, 0);
    CU_ASSERT_EQUAL_FATAL(dao_mover_create(&config, &other), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, &byte, 1, &parked), DAO_OK);
    CU_ASSERT_EQUAL(dao_mover_in(other, parked, &target), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "another mover's"));
    dao_parked_t *more = NULL;
    char bytes[16] = {0};
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, bytes, sizeof(bytes), &more), DAO_OK);
    CU_ASSERT_EQUAL(dao_mover_in(mover, more, (char *)UINTPTR_MAX - 10), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "do not end in the address space"));
    CU_ASSERT_EQUAL(dao_parked_wait(more), DAO_OK); /* nothing was queued */
    dao_parked_release(more);
    CU_ASSERT_EQUAL(dao_mover_in(NULL, parked, &target), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_mover_in(mover, parked, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(target, 0);
    CU_ASSERT_EQUAL(dao_mover_in(mover, parked, &target), DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(parked), DAO_OK);
    CU_ASSERT_EQUAL(target, 7);
    dao_parked_release(parked);
    dao_mover_destroy(other);
    dao_mover_destroy(mover);
}

#if defined(DAO_FAULTS)
static void a_second_release_is_refused_while_a_move_is_under_way(void)
{
    char source = 5;
    dao_parked_t *parked;
    dao_gate_t gate;
    dao_gate_init(&gate);
    open_mover(0, MIB);
    dao_fault_meet(DAO_FAULT_FILE_WRITE, dao_gate_wait, &gate);
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, &source, 1, &parked), DAO_OK);
    dao_gate_await_reached(&gate);
    CU_ASSERT_PTR_NULL(dao_alloc(dao_device_place(4000), 1));
    CU_ASSERT_EQUAL(dao_parked_release(parked), DAO_OK);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE); /* as before */
    CU_ASSERT_EQUAL(dao_parked_release(parked), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_parked_release"));
    CU_ASSERT_EQUAL(stats().parked_count, 1);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_mover_destroy(mover), DAO_OK); /* freed once: by the end of the move */
    dao_gate_finish(&gate);
}

/* Creates a mover, moves bytes out and back in; the first failure, or DAO_OK if the bytes came back. */
static dao_status_t make_and_move(uint64_t pinned_bytes, uint64_t file_bytes)
{
    static char source[4096], target[4096];
    dao_mover_config_t config = {.pinned_bytes = pinned_bytes,
                                 .directory = file_bytes != 0 ? directory : NULL,
                                 .file_bytes = file_bytes};
    dao_parked_t *parked = NULL;
    fill(source, sizeof(source), 3);
    memset(target, 0, sizeof(target));
    mover = NULL;
    dao_status_t status = dao_mover_create(&config, &mover);
    CU_ASSERT_EQUAL(status == DAO_OK, mover != NULL);
    status = status == DAO_OK ? dao_mover_out(mover, source, sizeof(source), &parked) : status;
    CU_ASSERT_EQUAL(status == DAO_OK, parked != NULL);
    status = status == DAO_OK ? dao_parked_wait(parked) : status;
    status = status == DAO_OK ? dao_mover_in(mover, parked, target) : status;
    status = status == DAO_OK ? dao_parked_wait(parked) : status;
    CU_ASSERT_TRUE(status != DAO_OK || memcmp(source, target, sizeof(source)) == 0);
    dao_parked_release(parked);
    if (mover != NULL) {
        dao_mover_stats_t figures = stats();
        CU_ASSERT_EQUAL(figures.parked_count, 0);
        CU_ASSERT_EQUAL(figures.pinned_bytes + figures.file_bytes, 0);
    }
    dao_mover_destroy(mover);
    return status;
}

static void any_missing_resource_is_answered(void)
{
    for (int tier = 0; tier < 2; tier++) {
        dao_status_t status = DAO_ERR_IO;
        uint64_t fired_count = 1;
        for (uint64_t n = 0; fired_count > 0 && n < 1000; n++) { /* until there is no n-th point */
            dao_fault_arm(DAO_FAULT_ANY, n, false);
            status = make_and_move(tier == 0 ? MIB : 0, tier == 0 ? 0 : MIB);
            fired_count = dao_fault_disarm();
            CU_ASSERT_TRUE(status == DAO_OK || fired_count > 0);
        }
        CU_ASSERT_EQUAL(status, DAO_OK);
        CU_ASSERT_EQUAL(fired_count, 0);
    }
}
#endif

/* A random program of moves and releases from two threads, against the bytes that each item had. */
static void *move_at_random(void *user)
{
    uint64_t seed = *(uint64_t *)user;
    enum { COUNT = 12, ITEM_BYTES_MAX = 70000 };
    struct {
        dao_parked_t *parked;
        size_t size_bytes;
        uint64_t seed;
    } items[COUNT] = {0};
    char bytes[ITEM_BYTES_MAX], expected[ITEM_BYTES_MAX];
    for (int round = 0; round < 300; round++) {
        size_t i = dao_random_next(&seed) % COUNT;
        if (items[i].parked == NULL) {
            items[i].size_bytes = 1 + dao_random_next(&seed) % ITEM_BYTES_MAX;
            items[i].seed = dao_random_next(&seed);
            fill(bytes, items[i].size_bytes, items[i].seed);
            CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, bytes, items[i].size_bytes, &items[i].parked), DAO_OK);
            CU_ASSERT_EQUAL(dao_parked_wait(items[i].parked), DAO_OK);
        } else {
            fill(expected, items[i].size_bytes, items[i].seed);
            CU_ASSERT_EQUAL(dao_mover_in(mover, items[i].parked, bytes), DAO_OK);
            CU_ASSERT_EQUAL(dao_parked_wait(items[i].parked), DAO_OK);
            CU_ASSERT_EQUAL(memcmp(bytes, expected, items[i].size_bytes), 0);
            if (dao_random_next(&seed) % 2 == 0) {
                dao_parked_release(items[i].parked);
                items[i].parked = NULL;
            }
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        dao_parked_release(items[i].parked);
    }
    return NULL;
}

static void two_threads_move_at_random(void)
{
    open_mover(300000, 64 * MIB);
    uint64_t seed = dao_test_seed("two threads move at random", 11), seeds[2] = {seed, seed + 1};
    dao_thread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "mover", move_at_random, &seeds[i]), DAO_OK);
    }
    for (int i = 0; i < 2; i++) {
        dao_thread_join(&threads[i]);
    }
    dao_mover_stats_t figures = stats();
    CU_ASSERT_EQUAL(figures.parked_count, 0);
    CU_ASSERT_EQUAL(figures.pinned_bytes + figures.file_bytes, 0);
    dao_mover_destroy(mover);
}

static void a_forked_child_is_refused(void)
{
    open_mover(MIB, 0);
    char source = 7;
    dao_parked_t *before = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_mover_out(mover, &source, 1, &before), DAO_OK);
    CU_ASSERT_EQUAL(dao_parked_wait(before), DAO_OK);
    pid_t child = fork();
    if (child == 0) {
        char byte = 1;
        dao_parked_t *parked;
        dao_mover_stats_t figures;
        bool is_right = dao_mover_out(mover, &byte, 1, &parked) == DAO_ERR_FORKED &&
                        dao_mover_in(mover, before, &byte) == DAO_ERR_FORKED &&
                        dao_parked_wait(before) == DAO_ERR_FORKED &&
                        dao_mover_stats_get(mover, &figures) == DAO_ERR_FORKED;
        dao_parked_release(before);
        dao_mover_destroy(mover);
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    dao_parked_release(before);
    dao_mover_destroy(mover);
}

int main(void)
{
    static CU_TestInfo tests[] = {
        {"bytes come back from both tiers", bytes_come_back_from_both_tiers},
        {"a way in follows its way out", a_way_in_follows_its_way_out},
        {"what the place refuses is told", what_the_place_refuses_is_told},
        {"pinned memory comes first, and what has no room is refused",
         pinned_memory_comes_first_and_what_has_no_room_is_refused},
        {"what the place refuses goes to the file", what_the_place_refuses_goes_to_the_file},
        {"a refused write is told, and the source stays", a_refused_write_is_told_and_the_source_stays},
        {"a refused read can be tried again", a_refused_read_can_be_tried_again},
        {"bad arguments are refused", bad_arguments_are_refused},
        {"in a segment callback nothing ends", in_a_segment_callback_nothing_ends},
        {"bytes of another mover are refused", bytes_of_another_mover_are_refused},
#if defined(DAO_FAULTS)
        {"a second release is refused while a move is under way",
         a_second_release_is_refused_while_a_move_is_under_way},
        {"any missing resource is answered", any_missing_resource_is_answered},
#endif
        {"two threads move at random", two_threads_move_at_random},
        {"a forked child is refused", a_forked_child_is_refused},
        CU_TEST_INFO_NULL
    };
    CU_SuiteInfo suites[] = {{"mover", start, stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
