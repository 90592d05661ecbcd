/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Places over memory that the program obtains itself: a device that the library has no backend for, a heap of
 * a graphics library, a file, managed memory, a part of a device set apart. The program fills a small table;
 * the library divides what the table obtains as it does with any device's memory: blocks, limits, tags,
 * statistics, step plans, leases, stream order, handles, snapshots.
 */
#ifndef DAO_OWN_MEMORY_H
#define DAO_OWN_MEMORY_H

#include <dao/place.h>

DAO_BEGIN_DECLS

/** Bytes of a name, the closing zero included. */
#define DAO_OWN_MEMORY_NAME_BYTES 64

/** Which way a copy of dao_own_memory_t goes. */
typedef enum dao_own_copy {
    DAO_OWN_COPY_IN = 0,     /**< from host memory */
    DAO_OWN_COPY_OUT = 1,    /**< to host memory */
    DAO_OWN_COPY_WITHIN = 2, /**< between two blocks of the place */
} dao_own_copy_t;

/**
 * The table. All functions but the first two are optional, in groups that are whole or empty. Each gets
 * `user` first, answers DAO_OK or why not, and changes nothing then. It may call dao_last_status() and the
 * like, but no function that allocates, frees or waits: that answers DAO_ERR_REENTRANT. It may be called
 * under a lock of the library's, so it must not wait for a thread that uses the library. Calls come from any
 * thread, several at a time.
 */
typedef struct dao_own_memory {
    const char *name; /**< of dao_device_info_t, and in messages; copied, shorter than the bytes above */
    void *user;
    /** Most bytes that the table can obtain at a time; at least 1. */
    uint64_t capacity_bytes;
    /**
     * Alignment of what `obtain` gives, a power of two; 0 is 256, the least. The library may ask for any
     * size; where neither capacity, limit nor strategy wants less, for multiples of 2 MiB.
     */
    size_t alignment_bytes;
    /** DAO_ERR_NO_DEVICE_MEMORY where there is no more: the library then gives back what it can spare. */
    dao_status_t (*obtain)(void *user, size_t size_bytes, void **out_address);
    /** Takes what `obtain` gave, whole. No work uses it any more. */
    dao_status_t (*release)(void *user, void *address, size_t size_bytes);

    /**
     * Pages: memory without an address, and addresses without memory. With them the place maps what is free
     * to where it is missing, and needs much less than with `obtain` alone. page_bytes is a power of two, at
     * most 1 GiB; sizes and addresses are multiples of it. The place takes pages of 2 MiB or more, also where
     * page_bytes is less, so its limit cannot be smaller. A page is mapped at one address at a time and
     * keeps its bytes. These six, or none.
     */
    size_t page_bytes;
    dao_status_t (*reserve)(void *user, size_t size_bytes, void **out_address);
    dao_status_t (*unreserve)(void *user, void *address, size_t size_bytes);
    dao_status_t (*page_create)(void *user, size_t size_bytes, void **out_page);
    dao_status_t (*page_destroy)(void *user, void *page, size_t size_bytes);
    dao_status_t (*page_map)(void *user, void *page, void *address, size_t size_bytes);
    dao_status_t (*page_unmap)(void *user, void *page, void *address, size_t size_bytes);

    /**
     * Copies, done on return. NULL: the host can touch the memory, and copies by memcpy(). It is not asked
     * where the place is on a device.
     */
    dao_status_t (*copy)(void *user, dao_own_copy_t way, void *dst, const void *src, size_t size_bytes);

    /**
     * Events of the program's streams, which dao_stream_adopt() takes by their handles then; NULL is one too.
     * An event stands for the work on a stream before its latest record. `event_query` answers DAO_OK or
     * DAO_ERR_NOT_READY. `stream_wait_event` makes later work of a stream wait, without waiting itself. These
     * six, or none: then the place has only streams of the library's, whose work is done as it is queued.
     */
    dao_status_t (*event_create)(void *user, void **out_event);
    void (*event_destroy)(void *user, void *event);
    dao_status_t (*event_record)(void *user, void *event, void *stream);
    dao_status_t (*event_query)(void *user, void *event);
    dao_status_t (*event_synchronize)(void *user, void *event);
    dao_status_t (*stream_wait_event)(void *user, void *stream, void *event);

    /**
     * The memory is a device's that the library has, and follows that device's streams: they copy it and
     * order its blocks, as with the device's own place. `copy` and the events are NULL then.
     */
    bool is_on_device;
    int32_t device_index; /**< which one; 0 if it is on none */
} dao_own_memory_t;

/**
 * Makes a place of a program's own memory. It is a device place whose index follows those of the devices and
 * of earlier such places: dao_device_count() does not count it, and all else takes it as a device. Its
 * dao_pinned_place() is page-locked for the device that it is on, and ordinary host memory without one.
 *
 * dao_place_configure() may say how it is kept, before its first use. The place lasts until dao_finalize(),
 * which calls `release` for all that is left. Handles of its blocks may be released later: then so is their
 * memory. Where the place is on a device, memory handles follow the streams that dao_stream_get() and
 * dao_stream_create() give for the place. It has no memory for other processes (dao/share.h) and no DLPack.
 *
 * @param memory     Borrowed for the call; what `user` points to outlives the place.
 * @param out_place  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for a table that is not valid: the message names the field;
 *         DAO_ERR_TOO_MANY with DAO_DEVICE_COUNT_MAX devices and places; DAO_ERR_NO_DEVICE for a device that
 *         is not there; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_REENTRANT; DAO_ERR_SHUTDOWN; the errors of dao_init()
 *         if this call starts the library.
 *
 * Threads: any. Waits: never. Cost: O(1); nothing is obtained before the place is used.
 */
DAO_API DAO_NODISCARD dao_status_t dao_place_register(const dao_own_memory_t *memory, dao_place_t *out_place);

DAO_END_DECLS

#endif
