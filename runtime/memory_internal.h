/* What tensor.c needs of a memory handle beyond its public face. */
#ifndef DAO_RUNTIME_MEMORY_INTERNAL_H
#define DAO_RUNTIME_MEMORY_INTERNAL_H

#include <dao/memory.h>

/* Tells whether the handle came into this process by a fork: its memory must be left alone. */
bool dao_memory_is_forked(const dao_memory_t *memory);

#endif
