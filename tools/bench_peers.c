/* Allocators of the host, to compare with: the C library's, and mimalloc and jemalloc where they are installed. They are
   loaded beside the C library's and replace nothing. */
#define _GNU_SOURCE
#include "tools/bench.h"

#include <dlfcn.h>
#include <stdlib.h>

/* What an allocator's symbols are called. */
typedef struct source {
    const char *library; /* NULL: linked already */
    const char *alloc;
    const char *free;
} source_t;

enum { PEER_COUNT = 3 };

static const source_t sources[PEER_COUNT] = {
    {NULL, NULL, NULL},
    {"libmimalloc.so.2", "mi_malloc", "mi_free"},
    {"libjemalloc.so.2", "malloc", "free"},
};

static dao_bench_peer_t peers[PEER_COUNT] = {
    {.name = "glibc", .alloc = malloc, .free = free},
    {.name = "mimalloc"},
    {.name = "jemalloc"},
};

/* Finds a function; POSIX lets an object pointer be one. */
static void find(void *library, const char *name, void *out_function)
{
    *(void **)out_function = dlsym(library, name);
}

static void load(const source_t *source, dao_bench_peer_t *peer)
{
    void *library = dlopen(source->library, RTLD_NOW | RTLD_LOCAL); /* stays loaded to the end */
    if (library == NULL) {
        return;
    }
    find(library, source->alloc, &peer->alloc);
    find(library, source->free, &peer->free);
    if (peer->free == NULL) {
        peer->alloc = NULL;
    }
}

const dao_bench_peer_t *dao_bench_host_peer(size_t index)
{
    if (index >= PEER_COUNT) {
        return NULL;
    }
    if (peers[index].alloc == NULL) {
        load(&sources[index], &peers[index]);
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

const dao_bench_peer_t dao_bench_empty = {.name = "empty", .alloc = empty_alloc, .free = empty_free};
