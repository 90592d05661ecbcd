/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that draw calls on one place: what they take passes from thread to thread, with its contents. */
#ifndef DAO_TESTS_SCHEDULER_MEMORY_PROGRAM_H
#define DAO_TESTS_SCHEDULER_MEMORY_PROGRAM_H

#include <dao/dao.h>

#include <stdint.h>

/* Kinds of calls, each with the function that makes it. */
#define MEMORY_CALL_LIST(X)                                                                                  \
    X(PUT, put)           /* allocates and fills a block, and leaves it to any thread */                     \
    X(TAKE, take)         /* takes such a block, looks at its contents and frees it */                       \
    X(PASS, pass)         /* both at once, with a block of its own between them */                           \
    X(STATS, look)        /* reads the books */                                                              \
    X(SNAPSHOT, snapshot) /* and every block */                                                              \
    X(TRIM, trim)                                                                                            \
    X(LIMIT, limit)                                                                                          \
    X(ORDER, order)   /* takes and frees a block in the order of a stream, which fills it in between */      \
    X(RECORD, record) /* the same on two streams */                                                          \
    X(SYNC, synchronize)                                                                                     \
    X(STEP, step) /* a step around two blocks */                                                             \
    X(LEASE, lease)                                                                                          \
    X(EVENTS, events)                                                                                        \
    X(OWN, own)     /* makes a handle, shows its address, and releases it */                                 \
    X(WRONG, wrong) /* frees such an address, which is not the program's */                                  \
    X(TAG, tag)

enum {
#define MEMORY_CALL_ENUMERATOR(name, function) MEMORY_CALL_##name,
    MEMORY_CALL_LIST(MEMORY_CALL_ENUMERATOR)
#undef MEMORY_CALL_ENUMERATOR
        MEMORY_CALL_COUNT
};

#define CALL(name) (1u << MEMORY_CALL_##name)

typedef struct memory_program {
    dao_place_t place;
    dao_place_config_t config;
    uint32_t calls;      /* bits of CALL() */
    uint32_t call_count; /* of each thread */
    size_t size_bytes;   /* of a block, at most */
    size_t
        limit_bytes;   /* the lower one of the two between which LIMIT changes; also of the start, unless 0 */
    bool has_callback; /* a callback for memory that is short takes a block */
    bool comes_late;   /* no thread has used the place before they all do */
} memory_program_t;

/* Functions of a scenario_t. */
void memory_program_begin(const void *program, uint64_t *random);
void memory_program_part(const void *program, uint32_t thread, uint64_t *random);
void memory_program_end(const void *program);

#endif
