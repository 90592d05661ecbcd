/* SPDX-License-Identifier: Apache-2.0 */
/* What a request costs that is refused while many holes are almost large enough: for callgrind, which counts
   what dao_alloc_device() takes. `bench_refused HOLES REFUSALS`; bench/gate holds it to its limit.

       small device, full:   [ 64 KiB ][wall][ 64 KiB ][wall] ...   and 65 KiB are asked for */
#include <dao/dao.h>

#include <stdio.h>
#include <stdlib.h>

#define HOLE_BYTES ((size_t)64 << 10)
#define WALL_BYTES ((size_t)48 << 10) /* larger than what comes out of slabs */
#define FILL_BYTES ((size_t)1 << 20)
#define MORE_BYTES ((size_t)1 << 10) /* holes and request share a bin */
#define PAGE_BYTES ((size_t)2 << 20)

static dao_device_place_t place;

static void *must(void *block)
{
    if (block == NULL) {
        (void)fprintf(stderr, "bench_refused: %s\n", dao_last_message());
        exit(1);
    }
    return block;
}

/* Leaves `count` holes between blocks that stay, and no other place for as much. */
static void make_holes(size_t count)
{
    void **holes = must(calloc(count, sizeof(*holes)));
    for (size_t i = 0; i < count; i++) {
        holes[i] = must(dao_alloc_device(place, HOLE_BYTES));
        (void)must(dao_alloc_device(place, WALL_BYTES));
    }
    while (dao_alloc_device(place, FILL_BYTES) != NULL) {
    }
    while (dao_alloc_device(place, HOLE_BYTES) != NULL) {
    }
    for (size_t i = 0; i < count; i++) {
        dao_free_device(place, holes[i]);
    }
    free(holes);
}

int main(int argc, char **argv)
{
    size_t hole_count = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    size_t refusal_count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (hole_count == 0 || refusal_count == 0) {
        (void)fputs("usage: bench_refused HOLES REFUSALS\n", stderr);
        return 2;
    }
    dao_config_t config = {0};
    config.cpu.device_count = 1;
    config.cpu.device_bytes = (hole_count * (HOLE_BYTES + WALL_BYTES) / PAGE_BYTES + 2) * PAGE_BYTES;
    if (dao_init(&config) != DAO_OK) {
        (void)fprintf(stderr, "bench_refused: %s\n", dao_last_message());
        return 1;
    }
    place = dao_device_place(0);
    make_holes(hole_count);
    size_t refused_count = 0;
    for (size_t i = 0; i < refusal_count; i++) {
        refused_count += dao_alloc_device(place, HOLE_BYTES + MORE_BYTES) == NULL;
    }
    (void)printf("%zu\n", refused_count);
    return refused_count == refusal_count ? 0 : 1;
}
