/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned tensors lie from the top of the arena down, so that what is left below them is one piece.

       arena  | what kernels need and the policy moves        | C | free | B |  A  |
              0                              dao_pins_free_bytes()              capacity

   A tensor that is not pinned any more leaves a hole: pinned tensors are taken into it again, and others may
   lie there until then.

   A plan is made for what lies below them, and for these tensors at these places alone.

   Invariant: the list goes from the top down, and no two places have a byte in common. */
#include "runtime/executor/state/pins.h"

#include "base/numbers/random.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/state/victims.h"

#include <inttypes.h>

static uint64_t part_bytes(const dao_managed_t *tensor)
{
    return dao_device_arena_part_bytes(tensor->size_bytes);
}

/* Of a tensor and its place; those of all pinned tensors are added up. */
static uint64_t signature_of(const dao_managed_t *tensor, uint64_t offset_bytes)
{
    return dao_random_mix(dao_random_mix(tensor->id) + offset_bytes);
}

uint32_t dao_pins_count(const dao_engine_t *engine)
{
    uint32_t count = 0;
    for (const dao_managed_t *pinned = engine->first_pinned; pinned != NULL; pinned = pinned->pin.next) {
        count++;
    }
    return count;
}

uint64_t dao_pins_free_bytes(const dao_engine_t *engine)
{
    uint64_t free_bytes = engine->config.arena_bytes;
    for (const dao_managed_t *pinned = engine->first_pinned; pinned != NULL; pinned = pinned->pin.next) {
        free_bytes = pinned->pin.offset_bytes;
    }
    return free_bytes;
}

static dao_status_t refuse(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    const dao_managed_t *largest = engine->first_pinned;
    if (largest == NULL) {
        return dao_error(DAO_ERR_LIMIT,
                         "tensor \"%s\" (%zu bytes) cannot be pinned: the capacity is %" PRIu64
                         " bytes: raise capacity_bytes",
                         tensor->name, tensor->size_bytes, engine->config.arena_bytes);
    }
    for (const dao_managed_t *pinned = largest; pinned != NULL; pinned = pinned->pin.next) {
        largest = pinned->size_bytes > largest->size_bytes ? pinned : largest;
    }
    return dao_error(DAO_ERR_LIMIT,
                     "tensor \"%s\" (%zu bytes) cannot be pinned: of the capacity of %" PRIu64 " bytes %u "
                     "pinned tensors have %" PRIu64
                     ", the largest is \"%s\" (%zu bytes): unpin some or raise "
                     "capacity_bytes",
                     tensor->name, tensor->size_bytes, engine->config.arena_bytes, dao_pins_count(engine),
                     engine->pinned_bytes, largest->name, largest->size_bytes);
}

dao_status_t dao_pins_find_place(const dao_engine_t *engine, const dao_managed_t *tensor,
                                 uint64_t *out_offset_bytes)
{
    uint64_t bytes = part_bytes(tensor);
    uint64_t top = engine->config.arena_bytes;
    for (const dao_managed_t *pinned = engine->first_pinned; pinned != NULL; pinned = pinned->pin.next) {
        if (top - (pinned->pin.offset_bytes + part_bytes(pinned)) >= bytes) {
            break;
        }
        top = pinned->pin.offset_bytes;
    }
    if (top < bytes) {
        return refuse(engine, tensor);
    }
    *out_offset_bytes = top - bytes;
    return DAO_OK;
}

void dao_pins_add(dao_engine_t *engine, dao_managed_t *tensor, uint64_t offset_bytes)
{
    dao_managed_t **link = &engine->first_pinned;
    DAO_ASSERT(tensor->pin.count == 0);
    while (*link != NULL && (*link)->pin.offset_bytes > offset_bytes) {
        link = &(*link)->pin.next;
    }
    tensor->pin = (dao_pin_t){.count = 1, .offset_bytes = offset_bytes, .next = *link};
    *link = tensor;
    engine->pinned_bytes += part_bytes(tensor);
    engine->pins += signature_of(tensor, offset_bytes);
    engine->arena.reserved_count = 0; /* it has the memory of one of these parts now */
    dao_victims_update(engine, tensor);
}

void dao_pins_remove(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_managed_t **link = &engine->first_pinned;
    DAO_ASSERT(tensor->pin.count > 0);
    while (*link != tensor) {
        link = &(*link)->pin.next;
    }
    *link = tensor->pin.next;
    engine->pins -= signature_of(tensor, tensor->pin.offset_bytes);
    tensor->pin = (dao_pin_t){.count = 0};
    DAO_ASSERT(engine->pinned_bytes >= part_bytes(tensor));
    engine->pinned_bytes -= part_bytes(tensor);
    dao_victims_update(engine, tensor);
}

bool dao_pins_are_valid(const dao_engine_t *engine)
{
    uint64_t top = engine->config.arena_bytes;
    uint64_t bytes = 0, pins = 0;
    for (const dao_managed_t *pinned = engine->first_pinned; pinned != NULL; pinned = pinned->pin.next) {
        if (pinned->pin.count == 0 || pinned->pin.offset_bytes + part_bytes(pinned) > top ||
            (pinned->has_device && pinned->device_offset_bytes != pinned->pin.offset_bytes)) {
            return false;
        }
        top = pinned->pin.offset_bytes;
        bytes += part_bytes(pinned);
        pins += signature_of(pinned, top);
    }
    return bytes == engine->pinned_bytes && pins == engine->pins;
}
