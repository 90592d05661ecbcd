/* SPDX-License-Identifier: Apache-2.0 */
/* A page of shared memory in which a process shows its figures to other processes of its user.

       header     what it is, and of which process; its first word is stored last
       round      how many times the figures were written
       halves     [ figures of even rounds ][ figures of odd rounds ]

   One thread writes. It writes round r + 1 into the half that round r is not in, and then stores the number.
   A reader copies the half of the number that it has loaded, and loads the number again: if it is the same,
   the copy is whole, of all rows at one moment. A writer that is killed at any point leaves the last round
   whole.

   Why no mixed copy is taken: the half of round r is written next in round r + 2, after the number r + 1 was
   stored. All stores are releases and all loads acquires. A reader that has seen a word of round r + 2 so
   sees r + 1 or later when it loads the number again.

   A reader takes the page for hostile: it was mapped from another process. */
#ifndef DAO_RUNTIME_SCOREBOARD_H
#define DAO_RUNTIME_SCOREBOARD_H

#include "base/report/assert.h"

#include <dao/executor.h>
#include <dao/stats.h>
#include <dao/tag.h>

#include <stdatomic.h>

/* The name of the shared memory, by which readers find it. */
#define DAO_SCOREBOARD_NAME "dao-watch"

#define DAO_SCOREBOARD_MAGIC UINT64_C(0x4452414f424f4144) /* "DAOBOARD" in memory */

/* Goes up with every change of what follows. Statistics that get a field change a size in the header. */
#define DAO_SCOREBOARD_VERSION 1u

/* Rows: a process, 129 places at most, tags of each place, executors. What finds no row is counted. */
#define DAO_SCORE_ROW_COUNT 512u

#define DAO_SCORE_VALUE_COUNT 48u
#define DAO_SCORE_NAME_BYTES  64u

typedef enum dao_score_kind {
    DAO_SCORE_KIND_PROCESS = 1,  /* DAO_SCORE_PROCESS_LIST */
    DAO_SCORE_KIND_PLACE = 2,    /* DAO_STATS_LIST, then DAO_SCORE_PLACE_LIST */
    DAO_SCORE_KIND_TAG = 3,      /* DAO_TAG_STATS_LIST; the name is the tag's, the place its own */
    DAO_SCORE_KIND_EXECUTOR = 4, /* DAO_EXECUTOR_STATS_LIST; the place is its device */
    DAO_SCORE_KIND_END
} dao_score_kind_t;

/* What a process shows besides its places: type, name, text, as DAO_STATS_LIST. */
#define DAO_SCORE_PROCESS_LIST(X)                                                                            \
    X(uint64_t, host_reserved_bytes, "bytes of host and pinned memory taken from the system")                \
    X(uint64_t, host_peak_reserved_bytes, "most of them")                                                    \
    X(uint64_t, host_limit_bytes, "most they may become; 0 is none")                                         \
    X(uint64_t, process_internal_error_count, "internal errors of the process; the log has each")

typedef struct dao_score_process {
#define DAO_SCORE_FIELD(type, name, text) type name;
    DAO_SCORE_PROCESS_LIST(DAO_SCORE_FIELD)
} dao_score_process_t;

/* What a place shows besides its statistics. */
#define DAO_SCORE_PLACE_LIST(X)                                                                              \
    X(uint64_t, device_bytes, "memory of the device; 0 at the host")                                         \
    X(uint64_t, stream_count, "streams that allocate or free in stream order")                               \
    X(uint64_t, pending_stream_count, "of these, those whose last frees have not finished")

typedef struct dao_score_place {
    dao_stats_t stats;
    DAO_SCORE_PLACE_LIST(DAO_SCORE_FIELD)
#undef DAO_SCORE_FIELD
} dao_score_place_t;

static_assert(sizeof(dao_score_place_t) <= DAO_SCORE_VALUE_COUNT * sizeof(uint64_t), "they fit a row");
static_assert(sizeof(dao_executor_stats_t) <= DAO_SCORE_VALUE_COUNT * sizeof(uint64_t), "they fit a row");
static_assert(sizeof(dao_tag_stats_t) <= DAO_SCORE_VALUE_COUNT * sizeof(uint64_t), "they fit a row");

typedef struct dao_score_row {
    uint32_t kind; /* of dao_score_kind_t */
    uint32_t number;
    dao_place_t place;
    char name[DAO_SCORE_NAME_BYTES]; /* ends in a zero */
    union {
        dao_score_process_t process;
        dao_score_place_t place;
        dao_tag_stats_t tag;
        dao_executor_stats_t executor;
        uint64_t values[DAO_SCORE_VALUE_COUNT];
    } of;
} dao_score_row_t;

/* The figures of a round. */
typedef struct dao_scores {
    uint64_t time_ns;        /* when they were read, of dao_clock_ns(), which all processes share */
    uint64_t row_count;      /* the first is the process */
    uint64_t left_out_count; /* rows that found no room */
    dao_score_row_t rows[DAO_SCORE_ROW_COUNT];
} dao_scores_t;

#define DAO_SCORE_WORD_COUNT (sizeof(dao_scores_t) / sizeof(uint64_t))
static_assert(sizeof(dao_scores_t) % sizeof(uint64_t) == 0, "they are copied in words");
static_assert(sizeof(dao_score_row_t) % sizeof(uint64_t) == 0, "rows are copied in words");

/* What does not change once the first word is there. */
typedef struct dao_scoreboard_header {
    _Atomic uint64_t magic;
    uint32_t version;
    uint32_t page_bytes;
    uint32_t place_bytes, tag_bytes, executor_bytes, process_bytes; /* of the statistics in rows */
    int32_t pid;                                                    /* as the process itself sees it */
    uint32_t unused;
    uint64_t start_ns;
    char library[32]; /* the version of the library */
    char backend[16];
} dao_scoreboard_header_t;

typedef struct dao_scoreboard {
    dao_scoreboard_header_t header;
    _Atomic uint64_t round;
    _Atomic uint64_t halves[2][DAO_SCORE_WORD_COUNT];
} dao_scoreboard_t;

/* Fills the header of a zeroed page. */
void dao_scoreboard_init(dao_scoreboard_t *page, int pid, uint64_t start_ns, const char *backend);

/* Writes a round. Threads: one. */
void dao_scoreboard_write(dao_scoreboard_t *page, const dao_scores_t *scores);

/* Returns the next row of the figures, zeroed but for what is said; NULL: there is no room, which is
   counted. */
dao_score_row_t *dao_scores_add(dao_scores_t *scores, dao_score_kind_t kind, dao_place_t place);

/* Reads the latest round from a page of `page_bytes` that may hold anything. Names are made printable.
   DAO_ERR_NOT_READY: no round was written yet; DAO_ERR_UNSUPPORTED: another version of the library wrote it;
   DAO_ERR_CORRUPT: it is no such page; DAO_ERR_BUSY: it changed each time; all with a message. */
DAO_NODISCARD dao_status_t dao_scoreboard_read(const void *page, size_t page_bytes,
                                               dao_scoreboard_header_t *out_header, dao_scores_t *out_scores);

#endif
