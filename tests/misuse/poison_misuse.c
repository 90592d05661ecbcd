/* SPDX-License-Identifier: Apache-2.0 */
/* Uses of freed memory, which builds with AddressSanitizer end with its report: each way through which a
   block goes back, at each place whose bytes the host can touch. */
#define _GNU_SOURCE
#include "tests/misuse/misuse.h"

#include "tests/support/sanitizer.h"

#include <dao/step_plan.h>

#include <stdlib.h>

#if defined(TEST_HAS_ADDRESS_SANITIZER)

#define POISON "AddressSanitizer: use-after-poison"

/* Touches a block before its free, which is right, and after it. */
static void use_after_free(dao_place_t place, size_t size_bytes, size_t offset_bytes)
{
    misuse_begin();
    volatile unsigned char *block = dao_alloc(place, size_bytes);
    NEED(block != NULL);
    block[offset_bytes] = 1;
    NEED(dao_free(place, (void *)block) == DAO_OK);
    block[offset_bytes] = 2;
}

static void host_small(void)
{
    use_after_free(misuse_host, 100, 99);
}

static void host_large(void)
{
    use_after_free(misuse_host, 3 * MIB, 3 * MIB - 100 * KIB);
}

static void pinned(void)
{
    use_after_free(misuse_pinned, 300 * KIB, 0);
}

static void device_small(void)
{
    use_after_free(misuse_device, 1000, 999);
}

static void device_large(void)
{
    use_after_free(misuse_device, 3 * MIB, 3 * MIB - 1);
}

/* The fast path by the type of the place. */
static void device_typed(void)
{
    misuse_begin();
    dao_device_place_t place = {.index = 0};
    volatile unsigned char *block = dao_alloc(place, 512);
    NEED(block != NULL);
    block[0] = 1;
    NEED(dao_free(place, (void *)block) == DAO_OK);
    NEED(block[0] != 0);
}

static void strategy(void)
{
    use_after_free(misuse_device, 100 * KIB, 5);
}

/* Once a block of a quarantine has left it, its bytes are poison, too. */
static void quarantine_left(void)
{
    NEED(setenv("DAO_QUARANTINE_BYTES", "64KiB", 1) == 0);
    misuse_begin();
    volatile unsigned char *block = dao_alloc(misuse_host, 64 * KIB);
    NEED(block != NULL);
    NEED(dao_free(misuse_host, (void *)block) == DAO_OK);
    NEED(dao_free(misuse_host, dao_alloc(misuse_host, 48 * KIB)) == DAO_OK); /* both are too many for it */
    block[0] = 2;
}

/* A block of a step that its plan has placed. */
static void step_plan(void)
{
    misuse_begin();
    volatile unsigned char *block = NULL;
    for (int step = 0; step < 6; step++) {
        NEED(dao_step_begin(misuse_device) == DAO_OK);
        block = dao_alloc(misuse_device, 3 * MIB);
        NEED(block != NULL);
        block[1] = 1;
        NEED(dao_free(misuse_device, (void *)block) == DAO_OK);
        NEED(dao_step_end(misuse_device) == DAO_OK);
    }
    dao_step_plan_stats_t stats;
    NEED(dao_step_plan_stats_get(misuse_device, &stats) == DAO_OK);
    NEED(stats.all.hit_count > 0);
    block[1] = 2;
}

static void handle(void)
{
    misuse_begin();
    dao_memory_t *memory = NULL;
    NEED(dao_memory_create(misuse_host, 10 * KIB, NULL, &memory) == DAO_OK);
    volatile unsigned char *bytes = dao_memory_address(memory);
    bytes[7] = 1;
    NEED(dao_memory_release(memory) == DAO_OK);
    bytes[7] = 2;
}

/* A copy to a device, which a thread of the device makes. */
static void copy_to_device(void)
{
    misuse_begin();
    void *target = dao_alloc(misuse_device, 100 * KIB);
    void *block = dao_alloc(misuse_host, 100 * KIB);
    NEED(target != NULL && block != NULL && dao_free(misuse_host, block) == DAO_OK);
    NEED(dao_copy(misuse_device, target, misuse_host, block, 100 * KIB) == DAO_OK);
}

const misuse_case_t misuse_poison_cases[] = {
    {.name = "poison_host_small", .run = host_small, .reported = POISON},
    {.name = "poison_host_large", .run = host_large, .reported = POISON},
    {.name = "poison_pinned", .run = pinned, .reported = POISON},
    {.name = "poison_device_small", .run = device_small, .reported = POISON},
    {.name = "poison_device_large", .run = device_large, .reported = POISON},
    {.name = "poison_device_typed", .run = device_typed, .reported = POISON},
    {.name = "poison_binary_buddy",
     .run = strategy,
     .environment = "DAO_STRATEGY=binary_buddy",
     .reported = POISON},
    {.name = "poison_size_class",
     .run = strategy,
     .environment = "DAO_STRATEGY=size_class",
     .reported = POISON},
    {.name = "poison_quarantine_left",
     .run = quarantine_left,
     .environment = "DAO_HARDENING=quarantine",
     .reported = POISON},
    {.name = "poison_step_plan",
     .run = step_plan,
     .environment = "DAO_STEP_PLAN=offsets",
     .reported = POISON},
    {.name = "poison_handle", .run = handle, .reported = POISON},
    {.name = "poison_copy_to_device", .run = copy_to_device, .reported = POISON},
    {.name = NULL},
};

#else
const misuse_case_t misuse_poison_cases[] = {{.name = NULL}};
#endif
