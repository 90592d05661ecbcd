/* SPDX-License-Identifier: Apache-2.0 */
/* Peers: devices that reach each other's memory, once that is enabled, wherever it lies and moves. */
#include <dao/dao.h>

#include "runtime/start/context.h"
#include "tests/runtime/handles/three_devices.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/backends/portion.h"
#include "tests/support/suite.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES (4 * MIB)
#define CHUNK_COUNT 16 /* together all of a device */

static const dao_device_place_t near = {0};
static const dao_device_place_t far = {1};
static unsigned char memory[4096];

static dao_peer_info_t peer_info(int32_t device_index, int32_t peer_index)
{
    dao_peer_info_t info = {false, false};
    CU_ASSERT_EQUAL(dao_peer_query(device_index, peer_index, &info), DAO_OK);
    return info;
}

/* What enabling is answered between the first two devices, which reach each other unless they are portions of
   one. */
static dao_status_t enable_answer(void)
{
    return !portion_is_used() || peer_info(0, 1).can_reach ? DAO_OK : DAO_ERR_UNSUPPORTED;
}

static bool has_peers(const char *test)
{
    begin();
    bool has = enable_answer() == DAO_OK;
    end();
    if (!has) {
        (void)printf("    skipped: %s: no two devices that reach each other\n", test);
    }
    return has;
}

static void a_peer_is_reached_once_that_is_enabled(void)
{
    if (!has_peers("a peer is reached")) {
        return;
    }
    begin();
    CU_ASSERT_TRUE(peer_info(0, 1).can_reach);
    CU_ASSERT_FALSE(peer_info(0, 1).is_enabled);
    CU_ASSERT_TRUE(peer_info(1, 1).can_reach && peer_info(1, 1).is_enabled);
    CU_ASSERT_EQUAL(dao_peer_enable(0, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_peer_enable(0, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_peer_enable(1, 1), DAO_OK);
    CU_ASSERT_TRUE(peer_info(0, 1).is_enabled);
    CU_ASSERT_FALSE(peer_info(1, 0).is_enabled); /* the other way is another question */
    CU_ASSERT_FALSE(peer_info(0, 2).is_enabled);
    end();
    begin(); /* the next start knows nothing of it */
    CU_ASSERT_FALSE(peer_info(0, 1).is_enabled);
    CU_ASSERT_EQUAL(dao_peer_enable(0, 1), DAO_OK);
    end();
}

/* Device 0's own work writes a block of device 1's, and device 1 sees it. */
static void check_reach(char *block, size_t size_bytes, unsigned char value)
{
    unsigned char bytes[3] = {0};
    dao_place_t host = dao_place_of(dao_cpu_place());
    CU_ASSERT_EQUAL(dao_stream_fill(stream_of(near), block, value, size_bytes), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream_of(near)), DAO_OK);
    const size_t offsets[] = {0, size_bytes / 2, size_bytes - 1};
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_copy(host, &bytes[i], dao_place_of(far), block + offsets[i], 1), DAO_OK);
        CU_ASSERT_EQUAL(bytes[i], value);
    }
}

static void memory_is_reached_wherever_it_moves(void)
{
    void *chunks[CHUNK_COUNT];
    if (!has_peers("memory is reached wherever it moves")) {
        return;
    }
    begin();
    for (int i = 0; i < CHUNK_COUNT; i++) {
        chunks[i] = dao_alloc(far, CHUNK_BYTES);
        CU_ASSERT_PTR_NOT_NULL_FATAL(chunks[i]);
    }
    CU_ASSERT_EQUAL(dao_peer_enable(0, 1), DAO_OK);
    check_reach(chunks[3], CHUNK_BYTES, 1); /* it was there before */
    for (int i = 0; i < CHUNK_COUNT; i += 2) {
        CU_ASSERT_EQUAL(dao_free(far, chunks[i]), DAO_OK);
    }
    char *moved = dao_alloc(far, 5 * CHUNK_BYTES); /* larger than any hole: pages are moved */
    CU_ASSERT_PTR_NOT_NULL_FATAL(moved);
    check_reach(moved, 5 * CHUNK_BYTES, 2);
    check_reach(chunks[3], CHUNK_BYTES, 3);
    CU_ASSERT_EQUAL(dao_free(far, moved), DAO_OK);
    for (int i = 1; i < CHUNK_COUNT; i += 2) {
        CU_ASSERT_EQUAL(dao_free(far, chunks[i]), DAO_OK);
    }
    end();
}

static _Atomic bool is_enough;

/* Pages come, move and go on device 1, as long as others are at it. */
static void *change_pages(void *user)
{
    _Atomic int *wrong_counter = user;
    for (size_t i = 0; !atomic_load(&is_enough); i++) {
        void *first = dao_alloc(far, CHUNK_BYTES + i % 3 * CHUNK_BYTES);
        void *second = dao_alloc(far, CHUNK_BYTES);
        bool is_right = first != NULL && second != NULL && dao_free(far, first) == DAO_OK &&
                        dao_trim(dao_place_of(far), 0, NULL) == DAO_OK && dao_free(far, second) == DAO_OK;
        atomic_fetch_add(wrong_counter, !is_right);
    }
    return NULL;
}

/* Whatever is mapped meanwhile, both see it. */
static void peers_come_while_pages_change(void)
{
    int round_count = has_peers("peers come while pages change") ? 4 : 0;
    for (int round = 0; round < round_count; round++) {
        _Atomic int wrong_counter = 0;
        dao_thread_t thread;
        begin();
        char *block = dao_alloc(far, CHUNK_BYTES);
        atomic_store(&is_enough, false);
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "pages", change_pages, &wrong_counter), DAO_OK);
        CU_ASSERT_EQUAL(dao_peer_enable(0, 1), DAO_OK);
        CU_ASSERT_EQUAL(dao_peer_enable(2, 1), DAO_OK);
        char *later = dao_alloc(far, 3 * CHUNK_BYTES);
        check_reach(block, CHUNK_BYTES, 4);
        check_reach(later, 3 * CHUNK_BYTES, 5);
        atomic_store(&is_enough, true);
        dao_thread_join(&thread);
        CU_ASSERT_EQUAL(atomic_load(&wrong_counter), 0);
        CU_ASSERT_EQUAL(dao_free(far, later), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(far, block), DAO_OK);
        end();
    }
}

static void check_copies(void)
{
    dao_place_t host = dao_place_of(dao_cpu_place());
    unsigned char back[sizeof(memory)];
    void *here = dao_alloc(near, sizeof(memory)), *there = dao_alloc(far, sizeof(memory));
    for (size_t i = 0; i < sizeof(memory); i++) {
        memory[i] = (unsigned char)(i * 7);
    }
    CU_ASSERT_EQUAL(dao_copy(dao_place_of(near), here, host, memory, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(dao_place_of(far), there, dao_place_of(near), here, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_fill(stream_of(near), here, 0, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream_of(near)), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(dao_place_of(near), here, dao_place_of(far), there, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(host, back, dao_place_of(near), here, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(memory, back, sizeof(memory)), 0);
    CU_ASSERT_EQUAL(dao_free(near, here), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(far, there), DAO_OK);
}

static void refuse_copy_peer_locally(dao_backend_ops_t *ops)
{
    ops->copy_peer = NULL;
}

static dao_status_t unsupported_copy_peer(dao_backend_stream_t *stream, dao_backend_device_t *dst_device,
                                          void *dst, dao_backend_device_t *src_device, const void *src,
                                          size_t size_bytes)
{
    (void)stream;
    (void)dst_device;
    (void)dst;
    (void)src_device;
    (void)src;
    (void)size_bytes;
    return DAO_ERR_UNSUPPORTED;
}

static void refuse_copy_peer(dao_backend_ops_t *ops)
{
    ops->copy_peer = unsupported_copy_peer;
}

static void copies_between_devices_arrive_by_every_way(void)
{
    begin();
    check_copies();
    CU_ASSERT_EQUAL(dao_peer_enable(0, 1), enable_answer());
    check_copies();
    CU_ASSERT_EQUAL(dao_peer_enable(1, 0), enable_answer());
    check_copies();
    end();
    begin_without(refuse_copy_peer_locally);
    check_copies();
    end();
    begin_without(refuse_copy_peer);
    check_copies();
    end();
}

static void leave_out_peers(dao_backend_ops_t *ops)
{
    ops->peer_can = NULL;
    ops->peer_enable = NULL;
}

static void peers_that_cannot_be_reached_are_refused(void)
{
    dao_peer_info_t info = {true, true};
    begin_without(leave_out_peers);
    CU_ASSERT_FALSE(peer_info(0, 1).can_reach || peer_info(0, 1).is_enabled);
    CU_ASSERT_EQUAL(dao_peer_enable(0, 1), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_peer_enable(0, 3), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_peer_enable(-1, 0), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_peer_query(0, 3, &info), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_peer_query(0, 1, NULL), DAO_ERR_INVALID);
    CU_ASSERT_TRUE(info.can_reach && info.is_enabled);
    end();
    begin_without(NULL);
    fault_backend_arm(FAULT_CALL_PEER_ENABLE, 0, false);
    CU_ASSERT_EQUAL(dao_peer_enable(0, 1), DAO_ERR_BACKEND);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "from device:0 to device:1"));
    CU_ASSERT_FALSE(peer_info(0, 1).is_enabled);
    CU_ASSERT_EQUAL(fault_backend_disarm(), 1);
    CU_ASSERT_EQUAL(dao_peer_enable(0, 1), enable_answer());
    end();
}

static CU_TestInfo tests[] = {
    {"a peer is reached once that is enabled", a_peer_is_reached_once_that_is_enabled},
    {"memory is reached wherever it moves", memory_is_reached_wherever_it_moves},
    {"peers come while pages change", peers_come_while_pages_change},
    {"copies between devices arrive by every way", copies_between_devices_arrive_by_every_way},
    {"peers that cannot be reached are refused", peers_that_cannot_be_reached_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"peer", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
