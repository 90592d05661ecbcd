/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators of the host: the library's host place, and to compare with, the C library's, and mimalloc,
   jemalloc and tcmalloc where they are installed. They are loaded beside the C library's and replace nothing.
 */
#define _GNU_SOURCE
#include "bench/peers/bench_peer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* What an allocator's symbols are called. */
typedef struct source {
    const char *library; /* NULL: linked already */
    const char *alloc;
    const char *free;
} source_t;

enum { PEER_COUNT = 5 };

static const source_t sources[PEER_COUNT] = {
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
    {"libmimalloc.so.2", "mi_malloc", "mi_free"},
    {"libjemalloc.so.2", "malloc", "free"},
    {"libtcmalloc_minimal.so.4", "tc_malloc", "tc_free"},
};

/* Why one could not be loaded. */
enum { REASON_BYTES = 200 };
static char reasons[PEER_COUNT][REASON_BYTES];

static dao_bench_peer_t peers[PEER_COUNT] = {
    {.name = "host", .is_host_place = true, .alloc = dao_bench_host_alloc, .free = dao_bench_host_free},
    {.name = "glibc", .alloc = malloc, .free = free},
    {.name = "mimalloc"},
    {.name = "jemalloc"},
    {.name = "tcmalloc"},
};

/* Finds a function; POSIX lets an object pointer be one. */
static void find(void *library, const char *name, void *out_function)
{
    *(void **)out_function = dlsym(library, name);
}

static void load(const source_t *source, dao_bench_peer_t *peer, char reason[REASON_BYTES])
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* which know the C library's alone */
    (void)source;
    (void)snprintf(reason, REASON_BYTES, "not in a build with a sanitizer");
    peer->why_not = reason;
    return;
#endif
    void *library = dlopen(source->library, RTLD_NOW | RTLD_LOCAL); /* stays loaded to the end */
    if (library != NULL) {
        find(library, source->alloc, &peer->alloc);
        find(library, source->free, &peer->free);
    }
    if (peer->alloc == NULL || peer->free == NULL) {
        const char *error = dlerror();
        (void)snprintf(reason, REASON_BYTES, "cannot be loaded: %s",
                       error != NULL ? error : "no reason given");
        peer->alloc = NULL;
        peer->why_not = reason;
    }
}

const dao_bench_peer_t *dao_bench_host_peer(size_t index)
{
    if (index >= PEER_COUNT) {
        return NULL;
    }
    if (peers[index].alloc == NULL && peers[index].why_not == NULL) {
        load(&sources[index], &peers[index], reasons[index]);
    }
    return &peers[index];
}

static void *empty_alloc(size_t size_bytes)
{
    static char nothing;
    (void)size_bytes;
    return &nothing;
}

static void empty_free(void *address)
{
    (void)address;
}

static void *empty_alloc_on(size_t size_bytes, dao_stream_t *stream)
{
    (void)stream;
    return empty_alloc(size_bytes);
}

static void empty_free_on(void *address, dao_stream_t *stream)
{
    (void)address;
    (void)stream;
}

const dao_bench_peer_t dao_bench_empty = {.name = "empty", .alloc = empty_alloc, .free = empty_free};
const dao_bench_peer_t dao_bench_empty_ordered = {
    .name = "empty", .is_ordered = true, .alloc_on = empty_alloc_on, .free_on = empty_free_on};
