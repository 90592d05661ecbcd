/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Where memory is: a kind and an index. Each kind also has a C type of its own, so that the compiler picks
 * the allocator. dao_place_t is for places that are known only at run time.
 */
#ifndef DAO_PLACE_H
#define DAO_PLACE_H

#include <dao/status.h>

DAO_BEGIN_DECLS

typedef enum dao_place_kind {
    DAO_PLACE_KIND_CPU = 0, /**< ordinary host memory; index 0 */
    DAO_PLACE_KIND_PINNED =
        1, /**< page-locked host memory that one device copies from and to at full speed */
    DAO_PLACE_KIND_DEVICE = 2, /**< a device's own memory */
} dao_place_kind_t;

#define DAO_PLACE_KIND_COUNT 3u

/** Any place. Compare with dao_place_equal(). */
typedef struct dao_place {
    dao_place_kind_t kind;
    int32_t index; /**< the device; 0 for DAO_PLACE_KIND_CPU */
} dao_place_t;

/* These three have no tag: the functions below have the name that it would have, which C++ compilers warn
   of. */

/** The host, as a type of its own. */
typedef struct {
    int32_t index; /**< 0; not looked at, as there is one host */
} dao_cpu_place_t;

/** Pinned host memory of a device, as a type of its own. */
typedef struct {
    int32_t index; /**< the device it is pinned for */
} dao_pinned_place_t;

/** A device's memory, as a type of its own. */
typedef struct {
    int32_t index;
} dao_device_place_t;

static inline dao_cpu_place_t dao_cpu_place(void)
{
    dao_cpu_place_t place = {0};
    return place;
}

static inline dao_pinned_place_t dao_pinned_place(int32_t device_index)
{
    dao_pinned_place_t place = {device_index};
    return place;
}

static inline dao_device_place_t dao_device_place(int32_t device_index)
{
    dao_device_place_t place = {device_index};
    return place;
}

static inline dao_place_t dao_place_from_cpu(dao_cpu_place_t place)
{
    dao_place_t result = {DAO_PLACE_KIND_CPU, 0};
    (void)place;
    return result;
}

static inline dao_place_t dao_place_from_pinned(dao_pinned_place_t place)
{
    dao_place_t result = {DAO_PLACE_KIND_PINNED, place.index};
    return result;
}

static inline dao_place_t dao_place_from_device(dao_device_place_t place)
{
    dao_place_t result = {DAO_PLACE_KIND_DEVICE, place.index};
    return result;
}

static inline dao_place_t dao_place_from_place(dao_place_t place)
{
    return place;
}

#ifndef __cplusplus
/** The dao_place_t of a place of any type. */
#define dao_place_of(...) DAO_PLACE_OF((__VA_ARGS__))
#define DAO_PLACE_OF(place)                                                                                  \
    _Generic((place), dao_cpu_place_t                                                                        \
             : dao_place_from_cpu, dao_pinned_place_t                                                        \
             : dao_place_from_pinned, dao_device_place_t                                                     \
             : dao_place_from_device, dao_place_t                                                            \
             : dao_place_from_place)(place)
/* The ninth argument. Braces do not group for the preprocessor: it cuts a compound literal with two
   initializers at its comma. The number of arguments tells, and what this picks joins them again. */
#define DAO_ARG_PICK(_1, _2, _3, _4, _5, _6, _7, _8, picked, ...) picked
#endif

static inline bool dao_place_equal(dao_place_t a, dao_place_t b)
{
    return a.kind == b.kind && a.index == b.index;
}

/** Bytes that hold the text form of any place, the closing zero included. */
#define DAO_PLACE_TEXT_BYTES 24

/**
 * Writes the text form of a place: "cpu", "pinned:1", "device:2".
 *
 * @param place     Any; one of no kind is written as "?".
 * @param out_text  At least DAO_PLACE_TEXT_BYTES bytes; always ends in a zero.
 * @return out_text.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_place_format(dao_place_t place, char out_text[DAO_PLACE_TEXT_BYTES]);

/**
 * Reads the text form of a place: "cpu", "pinned" (device 0), "pinned:1", "device:2".
 *
 * @param text       Borrowed; the whole of it must be one place.
 * @param out_place  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for any other text. The device need not exist.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_place_parse(const char *text, dao_place_t *out_place);

DAO_END_DECLS

#endif
