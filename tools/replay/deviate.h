/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that deviate from a recorded one: sizes that differ, allocations that come in between, frees that are
   left out until the next step, neighbours that change places; and steps of several shapes, as sequence
   lengths make them. Drawn at random: equal seeds give equal steps.
   */
#ifndef DAO_TOOLS_DEVIATE_H
#define DAO_TOOLS_DEVIATE_H

#include "tools/read/log/event_file.h"

/* The kinds of deviations: symbol, name, and what becomes of an event that deviates so, which help tells. */
#define DAO_DEVIATION_LIST(X)                                                                                \
    X(SIZES, "sizes", "half to one and a half times as large")                                               \
    X(EXTRA, "extra", "an allocation of the same size before it, freed as the next step begins")             \
    X(MISSING, "missing", "freed as the next step begins")                                                   \
    X(SWAPPED, "swapped", "allocated before the allocation that it comes right behind")

typedef enum dao_deviation_kind {
#define DAO_DEVIATION_ENUMERATOR(symbol, name, text) DAO_DEVIATION_##symbol,
    DAO_DEVIATION_LIST(DAO_DEVIATION_ENUMERATOR)
#undef DAO_DEVIATION_ENUMERATOR
        DAO_DEVIATION_KIND_COUNT
} dao_deviation_kind_t;

/* The default number of steps that deviate. */
#define DAO_DEVIATION_REPEATS_DEFAULT 7u

typedef struct dao_deviation {
    double share;   /* of the events, 0 to 1: these have a kind drawn, and deviate if it is one of `kinds` */
    uint32_t kinds; /* a bit a kind */
    uint32_t repeats; /* steps that deviate */
    /* Above 1: each of these has one of so many shapes, drawn: all sizes are a part of the first step's. */
    uint32_t shapes;
    uint64_t seed;
} dao_deviation_t;

/* Reads names of kinds with commas between, or "all". DAO_ERR_INVALID with a message. */
DAO_NODISCARD dao_status_t dao_deviation_kinds_parse(const char *text, uint32_t *out_kinds);

/* Makes a file of the first step of another one as it is, and then as often with deviations as these say.
   What was alive before is left out, and what outlives a step is freed as the next one begins. On DAO_OK
   dao_event_file_finish() is owed. DAO_ERR_INVALID: there is no step; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_event_file_deviate(const dao_event_file_t *file,
                                                  const dao_deviation_t *deviation,
                                                  dao_event_file_t *out_file);

#endif
