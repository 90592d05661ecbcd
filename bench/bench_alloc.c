/* What a pair of dao_alloc() and dao_free() on a device costs: a set of live blocks of random sizes, each step of which
   replaces one of them. Build with -DDAO_BENCH=ON in the release preset; `bench_alloc [PAIRS [TRACE]]`. */
#include <dao/dao.h>

#include "base/sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_MAX 1000u

typedef struct trace {
    const char *name;
    uint32_t live_count;
    size_t least_bytes;
    size_t most_bytes;
} trace_t;

static const trace_t traces[] = {
    {"fixed", 1000, (size_t)1 << 20, (size_t)1 << 20},
    {"small", 1000, 256, (size_t)32 << 10},
    {"random", 1000, (size_t)64 << 10, (size_t)8 << 20},
    {"few", 50, (size_t)64 << 10, (size_t)8 << 20},
};

static uint64_t random_state = 1;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void *block_take(const trace_t *trace)
{
    size_t size_bytes = trace->least_bytes + random_next() % (trace->most_bytes - trace->least_bytes + 1);
    void *block = dao_alloc(dao_device_place(0), size_bytes);
    if (block == NULL) {
        (void)fprintf(stderr, "bench_alloc: %s\n", dao_last_message());
        exit(1);
    }
    return block;
}

static void block_give(void *block)
{
    if (dao_free(dao_device_place(0), block) != DAO_OK) {
        (void)fprintf(stderr, "bench_alloc: %s\n", dao_last_message());
        exit(1);
    }
}

static __attribute__((noinline)) void replace(const trace_t *trace, void **blocks, uint64_t pair_count)
{
    for (uint64_t i = 0; i < pair_count; i++) {
        void **block = &blocks[random_next() % trace->live_count];
        block_give(*block);
        *block = block_take(trace);
    }
}

static void trace_run(const trace_t *trace, uint64_t pair_count)
{
    static void *blocks[LIVE_MAX];
    dao_place_t place = dao_place_of(dao_device_place(0));
    (void)dao_trim(place, 0, NULL); /* what is left of the trace before */
    (void)dao_stats_reset_peaks(place);
    for (uint32_t i = 0; i < trace->live_count; i++) {
        blocks[i] = block_take(trace);
    }
    replace(trace, blocks, 20 * (uint64_t)trace->live_count); /* until it is steady */
    uint64_t begin_ns = dao_clock_ns();
    replace(trace, blocks, pair_count);
    uint64_t elapsed_ns = dao_clock_ns() - begin_ns;
    dao_stats_t stats;
    if (dao_stats_get(place, &stats) != DAO_OK) {
        exit(1);
    }
    printf("%-8s %6" PRIu32 " %10.1f %20.3f\n", trace->name, trace->live_count,
           (double)elapsed_ns / (double)pair_count,
           (double)stats.peak_reserved_bytes / (double)stats.peak_used_bytes);
    for (uint32_t i = 0; i < trace->live_count; i++) {
        block_give(blocks[i]);
    }
}

int main(int argc, char **argv)
{
    uint64_t pair_count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    dao_config_t config = {.cpu = {.device_bytes = UINT64_C(6) << 30}};
    if (pair_count == 0 || dao_init(&config) != DAO_OK) {
        (void)fprintf(stderr, "usage: bench_alloc [PAIRS [TRACE]]\n%s\n", dao_last_message());
        return 1;
    }
    printf("%-8s %6s %10s %20s\n", "trace", "live", "ns a pair", "reserved / peak live");
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
        if (argc < 3 || strcmp(argv[2], traces[i].name) == 0) {
            trace_run(&traces[i], pair_count);
        }
    }
    printf("instructions a pair: DAO_CPU_NO_PAGE_MAPPING=1 valgrind --tool=callgrind bench_alloc N random, "
           "for two N: the\n"
           "difference of \"Collected\" over the difference of N (valgrind cannot move pages)\n");
    return dao_finalize() != DAO_OK;
}
