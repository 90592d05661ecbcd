/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend may have beyond the least: a device's reach to peers and to host memory, and batches of
   copies. Those that have not skip these tests by name. */
#include "tests/contract/backend_contract_internal.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_BYTES ((size_t)50003)

/* ---- peers ---- */

/* Device 1, which device 0 may reach, and memory of it from before that was so and from after. */
typedef struct peer {
    dao_backend_device_t *device;
    dao_backend_stream_t *stream;
    size_t page_bytes; /* 0: it has no virtual memory */
    void *before;
    void *after;
    void *range; /* of three pages: before, after, nothing */
    dao_backend_pages_t *pages[2];
} peer_t;

static void map_page(peer_t *peer, int index)
{
    if (peer->page_bytes != 0) {
        NEED(contract.ops->pages_create(peer->device, peer->page_bytes, &peer->pages[index]));
        NEED(contract.ops->pages_map(peer->device, peer->pages[index],
                                     contract_at(peer->range, (size_t)index * peer->page_bytes)));
    }
}

static void open_peer(peer_t *peer)
{
    dao_device_info_t info;
    const dao_backend_ops_t *ops = contract.ops;
    *peer = (peer_t){0};
    NEED(ops->device_open(contract.backend, 1, &peer->device));
    NEED(ops->stream_create(peer->device, &peer->stream));
    NEED(ops->device_query(peer->device, &info));
    NEED(ops->memory_alloc(peer->device, SIZE_BYTES, &peer->before));
    peer->page_bytes = (size_t)info.page_bytes;
    if (peer->page_bytes != 0) {
        NEED(ops->address_reserve(peer->device, 3 * peer->page_bytes, &peer->range));
    }
    map_page(peer, 0);
}

static void close_peer(peer_t *peer)
{
    const dao_backend_ops_t *ops = contract.ops;
    if (peer->page_bytes != 0) { /* the first was moved behind the other one */
        NEED(ops->pages_unmap(peer->device, peer->pages[0], contract_at(peer->range, 2 * peer->page_bytes)));
        NEED(ops->pages_unmap(peer->device, peer->pages[1], contract_at(peer->range, peer->page_bytes)));
        NEED(ops->pages_destroy(peer->device, peer->pages[0]));
        NEED(ops->pages_destroy(peer->device, peer->pages[1]));
        NEED(ops->address_release(peer->device, peer->range, 3 * peer->page_bytes));
    }
    NEED(ops->memory_free(peer->device, peer->after, SIZE_BYTES));
    NEED(ops->memory_free(peer->device, peer->before, SIZE_BYTES));
    ops->stream_destroy(peer->stream);
    ops->device_close(peer->device);
}

/* Device 0's own work writes a peer's memory and reads it; the peer sees what was written. */
static void check_reach(const peer_t *peer, void *there, uint8_t value)
{
    const dao_backend_ops_t *ops = contract.ops;
    uint8_t *host = contract_take_pinned(2 * SIZE_BYTES);
    void *here = contract_take(SIZE_BYTES);
    memset(host, 0, 2 * SIZE_BYTES);
    CU_ASSERT_EQUAL(ops->fill(contract.stream, there, value, SIZE_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(ops->copy(contract.stream, DAO_COPY_KIND_D2D, here, there, SIZE_BYTES), DAO_OK);
    contract_copy_now(DAO_COPY_KIND_D2H, host, here, SIZE_BYTES);
    NEED(ops->copy(peer->stream, DAO_COPY_KIND_D2H, host + SIZE_BYTES, there, SIZE_BYTES));
    NEED(ops->stream_synchronize(peer->stream));
    CU_ASSERT_EQUAL(host[0], value);
    CU_ASSERT_EQUAL(memcmp(host, host + 1, 2 * SIZE_BYTES - 1), 0); /* all alike */
    contract_give(here, SIZE_BYTES);
    contract_give_pinned(host, 2 * SIZE_BYTES);
}

static bool has_peer(void)
{
    int32_t count = 0;
    bool can = false;
    dao_backend_device_t *peer = NULL;
    NEED(contract.ops->device_count(contract.backend, &count));
    if (contract.ops->peer_can != NULL && count > 1) {
        NEED(contract.ops->device_open(contract.backend, 1, &peer));
        NEED(contract.ops->peer_can(contract.device, peer, &can));
        contract.ops->device_close(peer);
    }
    if (!can) {
        (void)printf("    skipped: no device of %s reaches another one\n", contract.ops->name);
    }
    return can;
}

void contract_peers_reach_what_was_enabled(void)
{
    peer_t peer;
    if (!has_peer()) {
        return;
    }
    open_peer(&peer);
    CU_ASSERT_EQUAL(contract.ops->peer_enable(contract.device, peer.device), DAO_OK);
    CU_ASSERT_EQUAL(contract.ops->peer_enable(contract.device, peer.device), DAO_OK);
    NEED(contract.ops->memory_alloc(peer.device, SIZE_BYTES, &peer.after));
    map_page(&peer, 1);
    check_reach(&peer, peer.before, 1);
    check_reach(&peer, peer.after, 2);
    if (peer.page_bytes != 0) {
        check_reach(&peer, contract_at(peer.range, peer.page_bytes - SIZE_BYTES / 2), 3); /* in both */
        NEED(contract.ops->pages_unmap(peer.device, peer.pages[0], peer.range));
        NEED(contract.ops->pages_map(peer.device, peer.pages[0],
                                     contract_at(peer.range, 2 * peer.page_bytes)));
        check_reach(&peer, contract_at(peer.range, 2 * peer.page_bytes), 4);
    }
    close_peer(&peer);
}

/* ---- host memory ---- */

static bool has_host_memory(void)
{
    bool has = contract.ops->host_register != NULL;
    if (!has) {
        (void)printf("    skipped: %s registers no host memory\n", contract.ops->name);
    }
    return has;
}

/* Returns true if a device can register; a real one may not. */
static bool try_register(void *address, size_t size_bytes)
{
    dao_status_t status = contract.ops->host_register(contract.device, address, size_bytes);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_UNSUPPORTED);
    return status == DAO_OK;
}

void contract_host_memory_is_registered_and_given_up(void)
{
    if (!has_host_memory()) {
        return;
    }
    void *there = contract_take(SIZE_BYTES);
    uint8_t *host = malloc(2 * SIZE_BYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(host);
    for (uint64_t round = 0; round < 3 && try_register(host, 2 * SIZE_BYTES); round++) {
        contract_draw(host, SIZE_BYTES, round);
        contract_copy_now(DAO_COPY_KIND_H2D, there, host, SIZE_BYTES);
        contract_copy_now(DAO_COPY_KIND_D2H, host + SIZE_BYTES, there, SIZE_BYTES);
        CU_ASSERT_TRUE(contract_is_drawn(host + SIZE_BYTES, SIZE_BYTES, round));
        CU_ASSERT_EQUAL(contract.ops->host_unregister(contract.device, host), DAO_OK);
        contract_draw(host, SIZE_BYTES, round + 1); /* it is host memory as before */
        contract_copy_now(DAO_COPY_KIND_H2D, there, host, SIZE_BYTES);
    }
    free(host);
    contract_give(there, SIZE_BYTES);
}

/* The device's own work writes host memory. */
static void check_mapped(uint8_t *host, uint8_t value)
{
    void *address = NULL;
    memset(host, 0, SIZE_BYTES);
    CU_ASSERT_EQUAL(contract.ops->host_device_address(contract.device, host + 7, &address), DAO_OK);
    NEED(contract.ops->fill(contract.stream, address, value, SIZE_BYTES - 7));
    NEED(contract.ops->stream_synchronize(contract.stream));
    CU_ASSERT_EQUAL(host[6], 0);
    CU_ASSERT_EQUAL(host[7], value);
    CU_ASSERT_EQUAL(memcmp(host + 7, host + 8, SIZE_BYTES - 8), 0);
}

void contract_kernels_find_host_memory(void)
{
    if (!has_host_memory()) {
        return;
    }
    uint8_t *pinned = contract_take_pinned(SIZE_BYTES);
    check_mapped(pinned, 5);
    contract_give_pinned(pinned, SIZE_BYTES);
    uint8_t *host = malloc(SIZE_BYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(host);
    if (try_register(host, SIZE_BYTES)) {
        check_mapped(host, 6);
        CU_ASSERT_EQUAL(contract.ops->host_unregister(contract.device, host), DAO_OK);
    }
    free(host);
}

/* ---- batches ---- */

/* Pieces of odd sizes with gaps between: piece i is at `offset` of both sides. */
#define PIECE_COUNT     37
#define PIECE_GAP_BYTES ((size_t)5)

static size_t piece_bytes(size_t index)
{
    return 1 + index * 113;
}

/* Queues all pieces as one batch. */
static dao_status_t queue_pieces(dao_copy_kind_t kind, void *dst, void *src)
{
    void *dsts[PIECE_COUNT];
    const void *srcs[PIECE_COUNT];
    size_t sizes[PIECE_COUNT];
    size_t offset = 0;
    for (size_t i = 0; i < PIECE_COUNT; i++) {
        dsts[i] = contract_at(dst, offset);
        srcs[i] = contract_at(src, offset);
        sizes[i] = piece_bytes(i);
        offset += sizes[i] + PIECE_GAP_BYTES;
    }
    return contract.ops->copy_batch(contract.stream, kind, dsts, srcs, sizes, PIECE_COUNT);
}

/* Returns true if the pieces have come from `drawn` and the gaps are as they were. */
static bool are_pieces(const uint8_t *bytes, const uint8_t *drawn, size_t size_bytes, uint8_t gap)
{
    size_t offset = 0;
    bool is_right = true;
    for (size_t i = 0; i < PIECE_COUNT; i++) {
        is_right = is_right && memcmp(bytes + offset, drawn + offset, piece_bytes(i)) == 0;
        offset += piece_bytes(i);
        for (size_t j = 0; j < PIECE_GAP_BYTES; j++) {
            is_right = is_right && bytes[offset++] == gap;
        }
    }
    while (is_right && offset < size_bytes) {
        is_right = bytes[offset++] == gap;
    }
    return is_right;
}

void contract_batches_carry_exactly_their_bytes(void)
{
    enum { SIZE = 100000 };
    const dao_backend_ops_t *ops = contract.ops;
    void *front = contract_take(SIZE), *back = contract_take(SIZE);
    uint8_t *host = contract_take_pinned(2 * SIZE);
    contract_draw(host, SIZE, 1);
    memset(host + SIZE, 0xee, SIZE);
    NEED(ops->fill(contract.stream, front, 0xaa, SIZE));
    NEED(ops->fill(contract.stream, back, 0xbb, SIZE));
    NEED(ops->stream_synchronize(contract.stream));
    dao_status_t status =
        ops->copy_batch != NULL ? queue_pieces(DAO_COPY_KIND_H2D, front, host) : DAO_ERR_UNSUPPORTED;
    if (status == DAO_ERR_UNSUPPORTED) {
        (void)printf("    skipped: %s has no batches of copies here\n", ops->name);
    } else {
        CU_ASSERT_EQUAL(status, DAO_OK);
        CU_ASSERT_EQUAL(queue_pieces(DAO_COPY_KIND_D2D, back, front), DAO_OK);
        CU_ASSERT_EQUAL(queue_pieces(DAO_COPY_KIND_D2H, host + SIZE, back), DAO_OK);
        NEED(ops->stream_synchronize(contract.stream));
        CU_ASSERT_TRUE(are_pieces(host + SIZE, host, SIZE, 0xee));
        contract_copy_now(DAO_COPY_KIND_D2H, host + SIZE, back, SIZE);
        CU_ASSERT_TRUE(are_pieces(host + SIZE, host, SIZE, 0xbb));
    }
    contract_give_pinned(host, 2 * SIZE);
    contract_give(back, SIZE);
    contract_give(front, SIZE);
}
