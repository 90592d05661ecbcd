/* SPDX-License-Identifier: Apache-2.0 */
/* What looking into a place costs: an event in its ring, and a snapshot of many blocks. Build with
   -DDAO_BENCH=ON in the release preset; `bench_observe`. */
#include <dao/dao.h>

#include "base/threads/sync.h"
#include "runtime/observe/event_ring.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RUN_COUNT      20 /* the best is told: other programs share the machine */
#define EVENT_COUNT    UINT64_C(1000000)
#define PAIR_COUNT     UINT64_C(100000)
#define BLOCK_COUNT    10000u
#define SNAPSHOT_COUNT 50

static dao_place_t place;

static void must(dao_status_t status)
{
    if (status != DAO_OK) {
        (void)fprintf(stderr, "bench_observe: %s\n", dao_last_message());
        exit(1);
    }
}

static double note_ns(void)
{
    const dao_block_request_t request = {.size_bytes = 4096};
    uint64_t begin_ns = dao_clock_ns();
    for (uint64_t i = 0; i < EVENT_COUNT; i++) {
        dao_events_note_alloc(place, &request, (const void *)(uintptr_t)(i << 8), DAO_OK);
    }
    return (double)(dao_clock_ns() - begin_ns) / (double)EVENT_COUNT;
}

static double pair_ns(void)
{
    uint64_t begin_ns = dao_clock_ns();
    for (uint64_t i = 0; i < PAIR_COUNT; i++) {
        must(dao_free(place, dao_alloc(place, (size_t)1 << 20)));
    }
    return (double)(dao_clock_ns() - begin_ns) / (double)PAIR_COUNT;
}

static double best_of(double (*measure_ns)(void))
{
    double best_ns = measure_ns();
    for (int i = 1; i < RUN_COUNT; i++) {
        double ns = measure_ns();
        best_ns = ns < best_ns ? ns : best_ns;
    }
    return best_ns;
}

static void events_measure(void)
{
    double off_ns = best_of(note_ns), pair_off_ns = best_of(pair_ns);
    must(dao_events_start(place, 0));
    double on_ns = best_of(note_ns), pair_on_ns = best_of(pair_ns);
    must(dao_events_stop(place));
    printf("event, not recorded        %8.2f ns\n", off_ns);
    printf("event, recorded            %8.2f ns\n", on_ns);
    printf("pair of alloc and free     %8.2f ns\n", pair_off_ns);
    printf("the same, recorded         %8.2f ns\n", pair_on_ns);
}

/* Blocks with a hole between any two. */
static void snapshot_measure(void)
{
    static void *blocks[2 * BLOCK_COUNT];
    for (size_t i = 0; i < 2 * BLOCK_COUNT; i++) {
        blocks[i] = dao_alloc(place, (size_t)64 << 10);
        must(blocks[i] != NULL ? DAO_OK : dao_last_status());
    }
    for (size_t i = 0; i < 2 * BLOCK_COUNT; i += 2) {
        must(dao_free(place, blocks[i]));
    }
    uint64_t best_ns = UINT64_MAX;
    size_t count = 0;
    for (int i = 0; i < SNAPSHOT_COUNT; i++) {
        dao_snapshot_t *snapshot;
        uint64_t begin_ns = dao_clock_ns();
        must(dao_snapshot_create(place, &snapshot));
        uint64_t elapsed_ns = dao_clock_ns() - begin_ns;
        best_ns = elapsed_ns < best_ns ? elapsed_ns : best_ns;
        (void)dao_snapshot_blocks(snapshot, &count);
        dao_snapshot_destroy(snapshot);
    }
    printf("snapshot of %5zu blocks   %8.1f us\n", count, (double)best_ns / 1000.0);
    for (size_t i = 1; i < 2 * BLOCK_COUNT; i += 2) {
        must(dao_free(place, blocks[i]));
    }
}

int main(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = UINT64_C(6) << 30}};
    place = dao_place_of(dao_device_place(0));
    must(dao_init(&config));
    must(dao_free(place, dao_alloc(place, 1)));
    events_measure();
    snapshot_measure();
    return dao_finalize() != DAO_OK;
}
