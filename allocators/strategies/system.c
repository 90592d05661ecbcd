/* SPDX-License-Identifier: Apache-2.0 */
/* No cache: every block is one call of the upstream, every free another. It is there to be compared with, and
   to see what a vendor's own allocator does with a program. The table of live blocks (strategy.c) knows wrong
   frees all the same.

   What holds between calls: stats.reserved_bytes == stats.used_bytes. */
#include "allocators/strategies/strategy.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

static size_t system_block_bytes(const dao_placer_t *placer, size_t size_bytes, size_t alignment_bytes)
{
    return dao_round_up(dao_supply_padded(placer->supply, size_bytes, alignment_bytes),
                        placer->supply->alignment_bytes);
}

static dao_status_t system_take(dao_placer_t *placer, size_t size_bytes, size_t alignment_bytes,
                                dao_piece_t *out_piece)
{
    size_t block_bytes = system_block_bytes(placer, size_bytes, alignment_bytes);
    dao_status_t status = dao_supply_make_room(placer->supply, block_bytes);
    return status == DAO_OK ? dao_supply_take(placer->supply, block_bytes, false, out_piece) : status;
}

static dao_status_t system_give(dao_placer_t *placer, const dao_piece_t *piece)
{
    return dao_supply_give(placer->supply, piece);
}

static uint64_t system_idle_bytes(const dao_placer_t *placer)
{
    (void)placer; /* nothing is kept */
    return 0;
}

static uint64_t system_largest_hole(const dao_placer_t *placer)
{
    (void)placer; /* nothing is kept */
    return 0;
}

static void system_walk(const dao_placer_t *placer, dao_placed_visit_t visit, void *user)
{
    (void)placer; /* nothing is kept */
    (void)visit;
    (void)user;
}

static bool system_is_hole(const dao_placer_t *placer, const void *address)
{
    (void)placer; /* nothing is kept */
    (void)address;
    return false;
}

static bool system_is_valid(const dao_placer_t *placer, uint64_t used_bytes, uint64_t *reserved_bytes)
{
    (void)placer; /* it has nothing of its own */
    *reserved_bytes += used_bytes;
    return true;
}

static void system_destroy(dao_placer_t *placer)
{
    dao_host_free(placer);
}

static const dao_placer_ops_t system_ops = {
    .name = "system",
    .block_bytes = system_block_bytes,
    .take = system_take,
    .give = system_give,
    .idle_bytes = system_idle_bytes,
    .largest_hole = system_largest_hole,
    .walk = system_walk,
    .is_hole = system_is_hole,
    .is_valid = system_is_valid,
    .destroy = system_destroy,
};

dao_status_t dao_system_create(const dao_strategy_config_t *config, dao_allocator_t **out_allocator)
{
    DAO_ASSERT(config->segment_bytes == 0 && config->initial_bytes == 0);
    dao_placer_t *placer = dao_host_calloc(1, sizeof(*placer));
    if (placer == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    placer->ops = &system_ops;
    return dao_strategy_create(config, placer, out_allocator);
}
