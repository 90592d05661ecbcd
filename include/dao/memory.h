/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Memory at a place: raw addresses by dao_alloc() and dao_free(), counted handles by dao_memory_t.
 */
#ifndef DAO_MEMORY_H
#define DAO_MEMORY_H

#include <dao/place.h>
#include <dao/tag.h>

DAO_BEGIN_DECLS

typedef struct dao_stream dao_stream_t;

/**
 * Allocates memory at a place. Starts the library with default settings if dao_init() was not called.
 * Addresses are aligned to 256 bytes on a device and in pinned memory, to 64 bytes on the host. In C,
 * `dao_alloc(place, size)` takes a place of any type, and the compiler picks the allocator.
 *
 * @param place       Where the memory is to be.
 * @param size_bytes  0 returns NULL and is no error: dao_last_status() stays as it was.
 * @return The caller owns it until dao_free(). NULL with dao_last_status(): DAO_ERR_NO_DEVICE for a device
 *         that is not there, DAO_ERR_DEVICE_LOST for one that has failed for good, DAO_ERR_LIMIT,
 *         DAO_ERR_NO_DEVICE_MEMORY, DAO_ERR_NO_HOST_MEMORY, DAO_ERR_OVERFLOW, DAO_ERR_INVALID for what is no
 *         place, DAO_ERR_BACKEND and DAO_ERR_THREAD if the device could not be started, DAO_ERR_REENTRANT in
 *         a callback that must not allocate, DAO_ERR_FORKED in a child process, DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: only when memory is short: for the device, for the place's pressure callbacks, and for
 * other threads as long as dao_pressure_wait_set() says. Cost: O(1) from the cache, else a few backend calls.
 */
DAO_API DAO_NODISCARD void *dao_alloc(dao_place_t place, size_t size_bytes);
DAO_API DAO_NODISCARD void *dao_alloc_cpu(dao_cpu_place_t place,
                                          size_t size_bytes); /**< dao_alloc() on the host */
DAO_API DAO_NODISCARD void *dao_alloc_pinned(dao_pinned_place_t place,
                                             size_t size_bytes); /**< dao_alloc() in pinned memory */
DAO_API DAO_NODISCARD void *dao_alloc_device(dao_device_place_t place,
                                             size_t size_bytes); /**< dao_alloc() on a device */

/** How a block is wanted. All zero means as dao_alloc(). */
typedef struct dao_alloc_options {
    /** Alignment of the address, a power of two. 0, or less than the place's own, is the place's own. */
    size_t alignment_bytes;
    dao_tag_t tag; /**< the tag that the block counts for; 0: this thread's current tag */
} dao_alloc_options_t;

/**
 * Allocates memory at a place with an alignment and a tag. Freed by dao_free().
 *
 * @param place       Where.
 * @param size_bytes  0 returns NULL and is no error.
 * @param options     Borrowed for the call; NULL is all zero.
 * @return As dao_alloc(); besides, NULL with dao_last_status() DAO_ERR_INVALID for an alignment that is no
 *         power of two and for a number that is no tag, and DAO_ERR_LIMIT for the limit of the tag.
 *
 * Threads: any. Waits: as dao_alloc(). Cost: as dao_alloc().
 */
DAO_API DAO_NODISCARD void *dao_alloc_with(dao_place_t place, size_t size_bytes,
                                           const dao_alloc_options_t *options);

/**
 * Frees a block of dao_alloc(). The place keeps its bytes for the next request, see dao_trim(). No stream may
 * use the block any more.
 *
 * @param place    The place it was allocated at.
 * @param address  NULL is allowed and does nothing.
 * @return DAO_OK; DAO_ERR_FOREIGN_POINTER, DAO_ERR_INTERIOR_POINTER, DAO_ERR_DOUBLE_FREE,
 *         DAO_ERR_WRONG_PLACE, and DAO_ERR_NOT_YOURS for a block with an owner, such as a memory handle's,
 *         whom the message names (dao_block_owner_t in dao/observe.h): nothing was changed, and the address
 *         was not touched; DAO_ERR_INVALID for what is no place; DAO_ERR_NO_DEVICE; DAO_ERR_REENTRANT in a
 *         callback that must not free; DAO_ERR_FORKED; DAO_ERR_SHUTDOWN. At a hardened place (see
 *         dao_hardening_t) also DAO_ERR_CORRUPT if bytes behind the block, or the library's record of it,
 *         were overwritten: the block is never used again; and the backend's error if its bytes cannot be
 *         reached.
 *
 * A block that was freed long ago may be reported as foreign: its memory may be merged or returned by now.
 *
 * Threads: any. Waits: while another thread grows or trims the place, which may wait for the device; at a
 * hardened device place also for its bytes. Cost: O(1).
 */
DAO_API dao_status_t dao_free(dao_place_t place, void *address);
DAO_API dao_status_t dao_free_cpu(dao_cpu_place_t place, void *address); /**< dao_free() on the host */
DAO_API dao_status_t dao_free_pinned(dao_pinned_place_t place,
                                     void *address); /**< dao_free() in pinned memory */
DAO_API dao_status_t dao_free_device(dao_device_place_t place, void *address); /**< dao_free() on a device */

/**
 * Returns the bytes handed out at a place: the sum of the sizes of its live blocks, including rounding.
 *
 * @return 0 for a place that is not there.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API size_t dao_used(dao_place_t place);
DAO_API size_t dao_used_cpu(dao_cpu_place_t place);       /**< dao_used() of the host */
DAO_API size_t dao_used_pinned(dao_pinned_place_t place); /**< dao_used() of pinned memory */
DAO_API size_t dao_used_device(dao_device_place_t place); /**< dao_used() of a device */

#ifndef __cplusplus
/* A place that is a compound literal may come as two arguments: see DAO_ARG_PICK() in dao/place.h. */
#define dao_alloc(...) DAO_ARG_PICK(__VA_ARGS__, 0, 0, 0, 0, 0, DAO_ALLOC_3, DAO_ALLOC_2, 0, 0)(__VA_ARGS__)
#define dao_free(...)  DAO_ARG_PICK(__VA_ARGS__, 0, 0, 0, 0, 0, DAO_FREE_3, DAO_FREE_2, 0, 0)(__VA_ARGS__)
#define dao_used(...)  DAO_USED_1((__VA_ARGS__))

/* the same with a place that was cut, and with a whole one */
#define DAO_ALLOC_3(kind, index, size_bytes) DAO_ALLOC_2((kind, index), size_bytes)
#define DAO_FREE_3(kind, index, address)     DAO_FREE_2((kind, index), address)
#define DAO_ALLOC_2(place, size_bytes)                                                                       \
    _Generic((place), dao_cpu_place_t                                                                        \
             : dao_alloc_cpu, dao_pinned_place_t                                                             \
             : dao_alloc_pinned, dao_device_place_t                                                          \
             : dao_alloc_device, dao_place_t                                                                 \
             : dao_alloc)((place), (size_bytes))
#define DAO_FREE_2(place, address)                                                                           \
    _Generic((place), dao_cpu_place_t                                                                        \
             : dao_free_cpu, dao_pinned_place_t                                                              \
             : dao_free_pinned, dao_device_place_t                                                           \
             : dao_free_device, dao_place_t                                                                  \
             : dao_free)((place), (address))
#define DAO_USED_1(place)                                                                                    \
    _Generic((place), dao_cpu_place_t                                                                        \
             : dao_used_cpu, dao_pinned_place_t                                                              \
             : dao_used_pinned, dao_device_place_t                                                           \
             : dao_used_device, dao_place_t                                                                  \
             : dao_used)(place)
#endif

/**
 * Releases a place's cached memory, which holds no live block: to the backend, or on the host to the system.
 * On a device with page mapping that is every whole free page (2 MiB, or more where a place may exceed
 * 64 GiB), else every free segment. Small freed blocks that other threads keep (cached_bytes in dao/stats.h)
 * are taken from them first. Those of a thread stay, and what they lie in with them, while the thread is
 * inside a call of this place, and where the system has no membarrier(2): until that thread next takes or
 * frees a small block there, trims, or ends.
 *
 * @param place               Whose cached memory is released.
 * @param keep_bytes          Bytes that may stay cached; 0 releases all that can be.
 * @param out_released_bytes  May be NULL; bytes released, by which reserved_bytes falls. The host's idle
 *                            pages between live blocks go back to the system, too, and stay reserved.
 * @return DAO_OK, also if nothing could be released; DAO_ERR_INVALID for what is no place; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_SHUTDOWN; DAO_ERR_BACKEND.
 *
 * Threads: any. Waits: for the device. Cost: one backend call a page or segment.
 */
DAO_API dao_status_t dao_trim(dao_place_t place, size_t keep_bytes, size_t *out_released_bytes);

/**
 * Sets the most bytes that a place may reserve, cached bytes included. The place never exceeds it. Freed
 * small blocks that other threads keep are taken from them as by dao_trim().
 *
 * @param place        Whose memory is limited.
 * @param limit_bytes  0 means no limit but the device's own. Below what is reserved now, cached memory is
 *                     trimmed first. A place with page mapping takes whole pages, as dao_trim() has it: below
 *                     one it takes nothing, and refusals say what it needs. Pages suit the limit that the
 *                     place starts with.
 * @return DAO_OK; DAO_ERR_LIMIT if live blocks, or segments with live blocks in them, hold more than that:
 *         the message says which, what was idle is given back, and the limit stays as it was;
 *         DAO_ERR_INVALID for what is no place; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN; DAO_ERR_BACKEND if it
 *         refuses to take memory back.
 *
 * Threads: any. Waits: for the device, if it has to trim. Cost: as dao_trim().
 */
DAO_API DAO_NODISCARD dao_status_t dao_limit_set(dao_place_t place, size_t limit_bytes);

/**
 * Copies bytes between any two places and waits until they have arrived. It does not wait for work of other
 * streams that writes `src` or uses `dst`: synchronize with that first.
 *
 * @param dst_place   Where `dst` is.
 * @param dst         `size_bytes` bytes, not overlapping `src`.
 * @param src_place   Where `src` is.
 * @param src         `size_bytes` bytes.
 * @param size_bytes  0 does nothing.
 * @return DAO_OK; DAO_ERR_INVALID for NULL and for what is no place; DAO_ERR_OUT_OF_BOUNDS if a device or
 *         pinned range is not inside one live block of its place; DAO_ERR_NO_DEVICE; DAO_ERR_COPY_FAILED;
 *         DAO_ERR_DEVICE_LOST; DAO_ERR_NO_HOST_MEMORY and DAO_ERR_LIMIT where a copy between devices has to
 *         go through pinned memory; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: until the bytes have arrived. Cost: the copy.
 */
DAO_API DAO_NODISCARD dao_status_t dao_copy(dao_place_t dst_place, void *dst, dao_place_t src_place,
                                            const void *src, size_t size_bytes);

/** A counted handle to a range of memory: address, size, place, owner. */
typedef struct dao_memory dao_memory_t;

/**
 * Frees what a handle was made from. Called once, by the thread that drops the last reference, with no lock
 * held.
 */
typedef void (*dao_memory_deleter_t)(void *address, size_t size_bytes, void *user);

/**
 * Allocates memory that nothing uses, and creates the first handle to it.
 *
 * @param place       Where.
 * @param size_bytes  0 creates a handle with a NULL address.
 * @param stream      Borrowed, on the place's device; the stream whose work dao_memory_release() waits for.
 *                    NULL: the device's compute stream. The handle keeps it alive.
 * @param out_memory  The caller owns one reference, until dao_memory_release().
 * @return As dao_alloc(); DAO_ERR_INVALID for NULL, or for a stream of another device or of a start of the
 *         library that dao_finalize() has ended.
 *
 * Threads: any. Waits: as dao_alloc(). Cost: as dao_alloc().
 */
DAO_API DAO_NODISCARD dao_status_t dao_memory_create(dao_place_t place, size_t size_bytes,
                                                     dao_stream_t *stream, dao_memory_t **out_memory);

/**
 * Creates a handle to memory that the program allocated elsewhere.
 *
 * @param place       Where the memory is.
 * @param address     Stays valid until the deleter is called.
 * @param size_bytes  Its size.
 * @param deleter     May be NULL: nothing is freed.
 * @param user        Handed to the deleter.
 * @param out_memory  The caller owns one reference.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_NO_HOST_MEMORY. On failure the deleter is not
 *         called.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_memory_from_pointer(dao_place_t place, void *address,
                                                           size_t size_bytes, dao_memory_deleter_t deleter,
                                                           void *user, dao_memory_t **out_memory);

/**
 * Creates a handle to a part of another handle's memory, which it keeps alive.
 *
 * @param memory        Borrowed; the new handle keeps it alive.
 * @param offset_bytes  From the start of `memory`.
 * @param size_bytes    offset_bytes + size_bytes is at most the size of `memory`.
 * @param out_memory    The caller owns one reference.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_OUT_OF_BOUNDS; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_memory_sub_range(dao_memory_t *memory, size_t offset_bytes,
                                                        size_t size_bytes, dao_memory_t **out_memory);

/**
 * Adds a reference.
 *
 * @return DAO_OK; DAO_ERR_INVALID for NULL, and for a handle without references: the latest dead handles are
 *         remembered. Nothing is changed.
 *
 * Threads: any. Waits: never. Cost: one atomic addition.
 */
DAO_API dao_status_t dao_memory_retain(dao_memory_t *memory);

/**
 * Drops a reference. The last one frees the memory as dao_free_async() does (dao/async.h): behind the work on
 * its stream so far, and on the streams that dao_record_stream() has named for its block. Works after
 * dao_finalize() too.
 *
 * At a place of dao_place_register() that is on no device, and has as many streams as dao_alloc_async() may
 * use, the block of a new stream's handle follows no stream: dao_record_stream() refuses it, and it counts as
 * used (deferred_count in dao/stats.h) until the library finds its stream done.
 *
 * @param memory  NULL is allowed and does nothing.
 * @return DAO_OK; DAO_ERR_INVALID for a handle without references, as dao_memory_retain(); DAO_ERR_REENTRANT
 *         from a segment callback (dao/segment.h).
 *
 * Threads: any. Waits: never; but the last handle of a device after dao_finalize() waits for its work, and
 * where host memory has run out, so does one at a hardened place or at one of a strategy of whole blocks, for
 * its stream. Cost: one atomic subtraction; the last one as dao_free_async().
 */
DAO_API dao_status_t dao_memory_release(dao_memory_t *memory);

/** Returns the address. Threads: any. Waits: never. Cost: O(1). */
DAO_API void *dao_memory_address(const dao_memory_t *memory);
/** Returns the size that was asked for, in bytes. Threads: any. Waits: never. Cost: O(1). */
DAO_API size_t dao_memory_size(const dao_memory_t *memory);
/**
 * Returns the place the bytes are at; pinned memory is at its pinned place, whichever device owns it.
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_place_t dao_memory_place(const dao_memory_t *memory);
/**
 * Returns the stream it was allocated on, borrowed; NULL for host memory. Threads: any. Waits: never. Cost:
 * O(1).
 */
DAO_API dao_stream_t *dao_memory_stream(const dao_memory_t *memory);
/** Returns the number of references now, for tests and reports. Threads: any. Waits: never. Cost: O(1). */
DAO_API uint32_t dao_memory_use_count(const dao_memory_t *memory);

DAO_END_DECLS

#endif
