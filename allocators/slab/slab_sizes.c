/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of objects: a class for every number of units at first, then so many classes an octave. */
#include "allocators/slab/slab.h"

/* Largest object of 4 KiB: of larger ones there are mostly too few of a size at a time, so that their slabs
   come and go, which costs more than placing each of them for itself. */
const dao_slab_sizes_t dao_slab_device_sizes = {.unit_shift = 8,
                                                .octave_shift = 4,
                                                .default_bytes = (size_t)4 << 10,
                                                .kept_bytes = (size_t)256 << 10,
                                                .magazine_bytes = (size_t)32 << 10};

/* Eight sizes an octave leave at most an eighth of an object unused, above 64 bytes. A thread keeps as many
   objects as a program's sizes wander by while as much lives as before: a magazine of n objects lasts
   (n / 2)^2 pairs at random, so 64 objects last a thousand, which is so for sizes up to 4 KiB, and 8 of the
   largest 16. */
const dao_slab_sizes_t dao_slab_host_sizes = {.unit_shift = 6,
                                              .octave_shift = 3,
                                              .default_bytes = DAO_SLAB_OBJECT_BYTES_MAX,
                                              .kept_bytes = (size_t)2 << 20,
                                              .magazine_bytes = (size_t)256 << 10};

static uint32_t class_of(const dao_slab_sizes_t *sizes, uint32_t units_less_1)
{
    if (units_less_1 < 2u << sizes->octave_shift) {
        return units_less_1;
    }
    uint32_t octave = 31 - (uint32_t)__builtin_clz(units_less_1) - sizes->octave_shift;
    return (octave << sizes->octave_shift) + (units_less_1 >> octave);
}

uint32_t dao_slab_class_count(const dao_slab_sizes_t *sizes)
{
    return class_of(sizes, (uint32_t)(DAO_SLAB_OBJECT_BYTES_MAX >> sizes->unit_shift) - 1) + 1;
}

uint32_t dao_slab_object_bytes(const dao_slab_sizes_t *sizes, uint32_t class_index)
{
    uint32_t octave_classes = 1u << sizes->octave_shift;
    if (class_index < 2 * octave_classes) {
        return (class_index + 1) << sizes->unit_shift;
    }
    uint32_t octave = (class_index >> sizes->octave_shift) - 1;
    uint32_t step = class_index % octave_classes + octave_classes + 1;
    return step << octave << sizes->unit_shift;
}

void dao_slab_classes_fill(const dao_slab_sizes_t *sizes, uint8_t *out_class_of_units)
{
    for (uint32_t i = 0; i < DAO_SLAB_OBJECT_BYTES_MAX >> sizes->unit_shift; i++) {
        out_class_of_units[i] = (uint8_t)class_of(sizes, i);
    }
}
