/* SPDX-License-Identifier: Apache-2.0 */
/* What is annotated: whether at all, and the heaps, a short list by address. A block belongs to the heap
   around it. */
#include "runtime/observe/annotate.h"

#include "base/memory/host.h"
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/text/setting.h"
#include "base/threads/sync.h"

_Atomic bool dao_annotations_on;

typedef struct heap {
    struct heap *next;
    dao_place_t place;
    uintptr_t address;
    size_t size_bytes;
    void *handle; /* the annotator's */
} heap_t;

static dao_mutex_t heaps_lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
static heap_t *heaps; /* guarded */

dao_status_t dao_annotate_find(bool *out_turned_on)
{
    *out_turned_on = false;
    const char *text = dao_setting("DAO_ANNOTATE");
    uint64_t is_on = 0;
    if (text == NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_units_parse_switch(text, &is_on);
    if (status != DAO_OK) {
        dao_error_prefix("DAO_ANNOTATE: ");
        return status;
    }
    if (is_on != 0 && dao_annotator.range_push == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "DAO_ANNOTATE is 1, and this build has neither NVTX nor ROCTX; see DAO_ANNOTATOR");
    }
    if (is_on != 0 && !atomic_exchange(&dao_annotations_on, true)) {
        *out_turned_on = true;
    }
    return DAO_OK;
}

/* Other places' memory is the process's own, which is watched by other means. */
static bool is_kept(dao_place_t place)
{
    return dao_annotate_is_on() && dao_annotator.heap_register != NULL && place.kind == DAO_PLACE_KIND_DEVICE;
}

void dao_annotate_obtained(dao_place_t place, void *address, size_t size_bytes)
{
    if (!is_kept(place)) {
        return;
    }
    heap_t *heap = dao_host_calloc(1, sizeof(*heap));
    if (heap == NULL) {
        return; /* the memory stays unknown, and so do its blocks */
    }
    char text[DAO_PLACE_TEXT_BYTES];
    *heap = (heap_t){.place = place, .address = (uintptr_t)address, .size_bytes = size_bytes};
    heap->handle = dao_annotator.heap_register(address, size_bytes, dao_place_format(place, text));
    dao_mutex_lock(&heaps_lock);
    heap->next = heaps;
    heaps = heap;
    dao_mutex_unlock(&heaps_lock);
}

void dao_annotate_releasing(dao_place_t place, void *address)
{
    if (!is_kept(place)) {
        return;
    }
    dao_mutex_lock(&heaps_lock);
    heap_t **link = &heaps;
    while (*link != NULL && (*link)->address != (uintptr_t)address) {
        link = &(*link)->next;
    }
    heap_t *heap = *link;
    if (heap != NULL) {
        *link = heap->next;
    }
    dao_mutex_unlock(&heaps_lock);
    if (heap != NULL) {
        dao_annotator.heap_unregister(heap->handle);
        dao_host_free(heap);
    }
}

/* Finds the heap of a place around an address: one that belongs elsewhere is about to be refused. */
static bool heap_find(dao_place_t place, const void *address, void **out_handle)
{
    dao_mutex_lock(&heaps_lock);
    const heap_t *heap = heaps;
    while (heap != NULL &&
           !(dao_place_equal(heap->place, place) && (uintptr_t)address - heap->address < heap->size_bytes)) {
        heap = heap->next;
    }
    bool is_found = heap != NULL;
    if (is_found) {
        *out_handle = heap->handle;
    }
    dao_mutex_unlock(&heaps_lock);
    return is_found;
}

void dao_annotate_alloc(dao_place_t place, const void *address, size_t size_bytes)
{
    void *handle;
    if (is_kept(place) && heap_find(place, address, &handle)) {
        dao_annotator.block_register(handle, address, size_bytes);
    }
}

void dao_annotate_free(dao_place_t place, const void *address)
{
    void *handle;
    if (is_kept(place) && heap_find(place, address, &handle)) {
        dao_annotator.block_unregister(address);
    }
}
