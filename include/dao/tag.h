/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Tags: names for what memory is used for. Each place counts the bytes of each tag, and can limit them.
 */
#ifndef DAO_TAG_H
#define DAO_TAG_H

#include <dao/place.h>

DAO_BEGIN_DECLS

/** A tag: a number from 1 up that stands for a name. 0 is no tag: its blocks are not counted by tag. */
typedef uint32_t dao_tag_t;

/** Most tags of a process, 0 included. */
#define DAO_TAG_COUNT_MAX 1024u

/** Bytes that hold any tag's name, the closing zero included. */
#define DAO_TAG_NAME_BYTES 64

/**
 * Returns the tag of a name, a new one for a new name. Tags belong to the process and are never freed; the
 * library need not be started.
 *
 * @param name     1 to DAO_TAG_NAME_BYTES - 1 bytes, none of them a control character; copied.
 * @param out_tag  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_TOO_MANY if the process has DAO_TAG_COUNT_MAX - 1 tags;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(tags).
 */
DAO_API DAO_NODISCARD dao_status_t dao_tag_create(const char *name, dao_tag_t *out_tag);

/**
 * Returns the name of a tag.
 *
 * @return Borrowed, valid until the process ends; "" for 0 and for a number that is no tag.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_tag_name(dao_tag_t tag);

/**
 * Sets the tag that this thread's allocations are counted for when they name none: those of dao_alloc(), of
 * memory handles, and of dao_alloc_with() with tag 0. Every thread begins with 0. Blocks keep the tag they
 * were allocated with. A block of a tag is counted under a lock, past what the thread keeps: a pair takes two
 * to three times the instructions of a small one without a tag.
 *
 * @param tag  0 for none. A number that is no tag counts as 0.
 * @return The tag before, to be set again.
 *
 * Threads: any, each has its own. Waits: never. Cost: O(1).
 */
DAO_API dao_tag_t dao_tag_set_current(dao_tag_t tag);

/** The fields of dao_tag_stats_t: type, name, and what it counts. Text and JSON forms come from this list. */
#define DAO_TAG_STATS_LIST(X)                                                                                \
    X(uint64_t, used_bytes, "bytes of the tag's live blocks, roundings included")                            \
    X(uint64_t, peak_used_bytes, "most used_bytes ever")                                                     \
    X(uint64_t, limit_bytes, "most used_bytes may become; 0 is none")                                        \
    X(uint64_t, live_count, "live blocks")                                                                   \
    X(uint64_t, alloc_count, "successful allocations")                                                       \
    X(uint64_t, free_count, "successful frees")                                                              \
    X(uint64_t, refused_count, "times the tag's limit refused a block")

/** What a tag holds at one place. */
typedef struct dao_tag_stats {
#define DAO_TAG_STATS_FIELD(type, name, text) type name; /**< see DAO_TAG_STATS_LIST */
    DAO_TAG_STATS_LIST(DAO_TAG_STATS_FIELD)
#undef DAO_TAG_STATS_FIELD
} dao_tag_stats_t;

/**
 * Reads what a tag holds at a place. Each field is exact. While other threads allocate, the fields may belong
 * to slightly different moments.
 *
 * @param place      Where its blocks are.
 * @param tag        A tag of dao_tag_create().
 * @param out_stats  Written only on DAO_OK; all zero but for a limit where nothing was allocated for the tag.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, 0 or a number that is no tag; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_tag_stats_get(dao_place_t place, dao_tag_t tag,
                                                     dao_tag_stats_t *out_stats);

/**
 * Sets the most bytes that a tag's live blocks may have at a place, including rounding. All threads together
 * never exceed it. An allocation that would answers DAO_ERR_LIMIT, with a message that names the tag. Before,
 * it waits for the place's frees that wait for a stream, and as long as dao_pressure_wait_set() says for
 * those of other threads; it calls no pressure callback, as these free memory, not a tag's room. A program
 * that keeps blocks of the tag for later frees some on DAO_ERR_LIMIT and asks again.
 *
 * @param place        Where it is limited.
 * @param tag          A tag of dao_tag_create().
 * @param limit_bytes  0 means no limit.
 * @return DAO_OK; DAO_ERR_LIMIT if the tag's live blocks hold more than that: the limit stays as it was;
 *         DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN; DAO_ERR_NO_HOST_MEMORY; as dao_init() where
 *         this is the first use of a device.
 *
 * Threads: any. Waits: for deferred frees, if the limit is exceeded without them. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_tag_limit_set(dao_place_t place, dao_tag_t tag, size_t limit_bytes);

/**
 * Receives what one tag holds at a place. No lock is held. It may call any function of the library but
 * dao_finalize(), which answers DAO_ERR_REENTRANT.
 */
typedef void (*dao_tag_visit_t)(dao_tag_t tag, const dao_tag_stats_t *stats, void *user);

/**
 * Shows each tag that a block was allocated or a limit was set for at a place, lowest number first.
 *
 * @param place  Whose tags are shown.
 * @param visit  Called once a tag, by this thread.
 * @param user   Handed to `visit`.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(tags).
 */
DAO_API dao_status_t dao_tag_walk(dao_place_t place, dao_tag_visit_t visit, void *user);

DAO_END_DECLS

#endif
