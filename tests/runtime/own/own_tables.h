/* SPDX-License-Identifier: Apache-2.0 */
/* Two tables of a program's own memory (dao/own_memory.h): plain malloc, without pages, and pages of a mapped
   file. What they gave is counted, calls can be made to fail, and one stream can be held up. */
#ifndef DAO_TESTS_RUNTIME_OWN_TABLES_H
#define DAO_TESTS_RUNTIME_OWN_TABLES_H

#include <dao/own_memory.h>

#include <stdatomic.h>

/* A stream of the program's: work is numbers, done up to one of them. */
typedef struct own_stream {
    _Atomic int queued;
    _Atomic int done;
    _Atomic int waited; /* times it was made to wait for an event of another one */
} own_stream_t;

typedef struct own_tables {
    _Atomic long held_bytes; /* obtained, and of pages */
    _Atomic long reserved_bytes;
    _Atomic long event_count;
    _Atomic long copy_count;
    _Atomic long fail_at; /* the call with this number from now on fails, once; negative: none */
    int file;             /* of the pages; -1: none */
    void (*inside)(void); /* called by obtain; NULL: nothing */
    void (*waiting)(own_stream_t *stream); /* called by event_synchronize; NULL: nothing */
    bool gives_odd;                        /* obtain and reserve give addresses that are not aligned */
} own_tables_t;

extern own_tables_t own_tables;

void own_tables_begin(void); /* nothing is held */
void own_tables_end(void);   /* closes the file */

/* Memory of malloc, which the host touches. */
dao_own_memory_t own_malloc_table(uint64_t capacity_bytes);

/* The same as a device of the program's: with copies and events of its own. */
dao_own_memory_t own_chip_table(uint64_t capacity_bytes);

/* Pages of a file that has no name. */
dao_own_memory_t own_file_table(uint64_t capacity_bytes);

#endif
