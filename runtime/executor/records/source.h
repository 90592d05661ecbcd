/* SPDX-License-Identifier: Apache-2.0 */
/* The record behind a source: a file or memory of the program's, which tensors are made of. */
#ifndef DAO_RUNTIME_EXECUTOR_SOURCE_H
#define DAO_RUNTIME_EXECUTOR_SOURCE_H

#include "base/files/file.h"

#include <dao/source.h>

/* What reads past the page cache begins and ends at, in the file and in memory. No device asks for more. */
#define DAO_SOURCE_BLOCK_BYTES ((size_t)4 << 10)

/* Returns false for one that its opener has released, as far as that can be seen. */
bool dao_source_is_open(const dao_source_t *source);

/* Adds a reference of a tensor. Drop: the last one, with the opener's, gives the file or the memory back. */
void dao_source_hold(dao_source_t *source);
void dao_source_drop(dao_source_t *source);

/* Its path, or what its memory is called in messages. */
const char *dao_source_name(const dao_source_t *source);

/* How far behind a multiple of a block the memory should begin that these bytes are read into, so that the
   page cache can be passed by. */
size_t dao_source_phase(const dao_source_t *source, uint64_t offset_bytes);

/* Reads bytes, by an engine's threads or ring if they are a file's. Returns 0 or an errno: EIO beyond the
   file's end. Threads: any; reads by an engine wait for each other. */
int dao_source_read(const dao_source_t *source, dao_file_t *engine, uint64_t offset_bytes, void *address,
                    size_t size_bytes);

/* The size that its file has by now. */
uint64_t dao_source_present_size(const dao_source_t *source);

#endif
