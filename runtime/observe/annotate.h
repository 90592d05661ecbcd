/* SPDX-License-Identifier: Apache-2.0 */
/* Says to a profiler or a checker of memory what the library does: ranges of time, the memory of devices that
   it keeps, and the blocks in it. Off it costs nothing: ranges look at one flag, and blocks share the branch
   of the events (event_ring.h).

       annotate.c                 on or off, which memory is kept
         dao_annotator_t            one of annotate_nvtx.c, annotate_roctx.c, annotate_none.c: the build's

   DAO_ANNOTATE=1 turns it on, for the rest of the process. */
#ifndef DAO_RUNTIME_ANNOTATE_H
#define DAO_RUNTIME_ANNOTATE_H

#include <dao/place.h>

#include <stdatomic.h>

/* The calls of a profiler or checker. A slot that it does not need is NULL. Threads: any. */
typedef struct dao_annotator {
    void (*range_push)(const char *name); /* begins a range of this thread, within the one before */
    void (*range_pop)(void);              /* ends the latest one */
    void *(*heap_register)(void *address, size_t size_bytes,
                           const char *name); /* memory that nobody may touch */
    void (*heap_unregister)(void *heap);
    void (*block_register)(void *heap, const void *address,
                           size_t size_bytes); /* a part that may be touched */
    void (*block_unregister)(const void *address);
} dao_annotator_t;

/* The build's. */
extern const dao_annotator_t dao_annotator;

extern _Atomic bool dao_annotations_on;

/* Reads DAO_ANNOTATE; *out_turned_on says whether this call turned annotating on: blocks have to be noted
   from now on, see dao_events_observe(). DAO_ERR_INVALID for what is neither 0 nor 1; DAO_ERR_UNSUPPORTED for
   1 in a build without annotator. */
DAO_NODISCARD dao_status_t dao_annotate_find(bool *out_turned_on);

static inline bool dao_annotate_is_on(void)
{
    return __builtin_expect(atomic_load_explicit(&dao_annotations_on, memory_order_relaxed), 0);
}

/* A range of this thread; each begin has its end. `name` is borrowed for the call. */
static inline void dao_annotate_begin(const char *name)
{
    if (dao_annotate_is_on() && dao_annotator.range_push != NULL) {
        dao_annotator.range_push(name);
    }
}

static inline void dao_annotate_end(void)
{
    if (dao_annotate_is_on() && dao_annotator.range_pop != NULL) {
        dao_annotator.range_pop();
    }
}

/* A device's memory, or addresses reserved for it, is the library's from now on; until it gives them back. */
void dao_annotate_obtained(dao_place_t place, void *address, size_t size_bytes);
void dao_annotate_releasing(dao_place_t place, void *address);

/* A block in it was handed out; it is about to be free. In stream order that is before the work which uses
   it: a checker has to run kernels one by one then. A free that is refused, as nothing begins at its address,
   is told, too. */
void dao_annotate_alloc(dao_place_t place, const void *address, size_t size_bytes);
void dao_annotate_free(dao_place_t place, const void *address);

#endif
