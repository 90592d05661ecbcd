/* malloc() and its family over libdao's host place.

       malloc(n) -- small, libdao's own, in a child, before the start --> glibc
         |
         +--> dao_alloc(), noted in the table of blocks --> the program
                                                              |
                glibc <-- not noted -- free(), realloc() <----+
                                         |
                                         +--> dao_free()

   Nothing lies before a block: whose it is its address tells, so that no content can be mistaken for a header.

   libdao itself calls malloc(), under locks of its own, too. Such a call is known by where it comes from, or by the thread being
   in a call of libdao's from here, and goes to glibc. */
#define _GNU_SOURCE
#include "integrations/malloc/dao_malloc.h"

#include "integrations/malloc/block_table.h"
#include "integrations/stats_json.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Requests of at least so many bytes are libdao's, where DAO_MALLOC_SMALLEST does not say; smaller ones its host place takes from
   malloc(), too. */
#define SMALLEST_DEFAULT (((size_t)32 << 10) + 1)

/* What DAO_MALLOC_REPORT writes of a place, and of how it is served, at most. */
#define REPORT_BYTES 8192

/* A block that shrinks to less than this part moves to a smaller one. */
#define SHRINK_PART 2u

/* glibc's own, under the names that it keeps for this. */
extern void *__libc_malloc(size_t size_bytes);
extern void *__libc_calloc(size_t count, size_t size_bytes);
extern void *__libc_realloc(void *address, size_t size_bytes);
extern void *__libc_memalign(size_t alignment_bytes, size_t size_bytes);
extern void __libc_free(void *address);

#define CALLER() __builtin_return_address(0)

static _Atomic bool is_on; /* libdao may be asked: from the start on, and not in a child */
static size_t smallest_bytes = SMALLEST_DEFAULT;
static uintptr_t library_begin, library_end; /* libdao's code */
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static __thread bool is_inside /* this thread is in a call of libdao's that was made here */
    __attribute__((tls_model("initial-exec")));

/* ---- blocks of libdao ---- */

static bool is_for_libdao(size_t size_bytes, const void *caller)
{
    return size_bytes >= smallest_bytes && !is_inside && atomic_load_explicit(&is_on, memory_order_relaxed) &&
           (uintptr_t)caller - library_begin >= library_end - library_begin;
}

/* Tells whether libdao has answered that there is no memory: glibc is not asked for it then, as the limit is the user's. */
static bool is_short(dao_status_t status)
{
    return status == DAO_ERR_LIMIT || status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_OVERFLOW;
}

static void block_free(void *address)
{
    int error = errno;
    if (atomic_load_explicit(&is_on, memory_order_relaxed)) { /* in a child it is the parent's */
        is_inside = true;
        if (dao_free(dao_cpu_place(), address) != DAO_OK && dao_last_status() != DAO_ERR_SHUTDOWN) {
            (void)dprintf(STDERR_FILENO, "libdao_malloc: %s\n", dao_last_message());
        }
        is_inside = false;
    }
    errno = error;
}

/* Starts libdao for the rest of the process: a program that knows of it may stop it, but has its blocks on. */
static void library_start(void)
{
    if (dao_init(NULL) != DAO_OK) {
        (void)dprintf(STDERR_FILENO, "libdao_malloc: all is glibc's: %s\n", dao_last_message());
        atomic_store(&is_on, false);
    }
}

static void enter(void)
{
    is_inside = true;
    (void)pthread_once(&library_once, library_start);
}

/* Gives false where glibc is to be asked instead. */
static bool block_alloc(size_t alignment_bytes, size_t size_bytes, void **out_address)
{
    int error = errno;
    dao_alloc_options_t options = {.alignment_bytes = alignment_bytes};
    enter();
    void *address = dao_alloc_with(dao_place_of(dao_cpu_place()), size_bytes, &options);
    bool is_answered = address != NULL || is_short(dao_last_status());
    is_inside = false;
    if (address != NULL && !dao_block_table_put(address, size_bytes)) {
        block_free(address);
        address = NULL;
    }
    errno = is_answered && address == NULL ? ENOMEM : error;
    *out_address = address;
    return is_answered;
}

/* ---- the family ---- */

static void *alloc(size_t size_bytes, const void *caller)
{
    void *address;
    return is_for_libdao(size_bytes, caller) && block_alloc(0, size_bytes, &address)
               ? address
               : __libc_malloc(size_bytes);
}

static void *alloc_aligned(size_t alignment_bytes, size_t size_bytes, const void *caller)
{
    void *address;
    bool is_power = alignment_bytes != 0 && (alignment_bytes & (alignment_bytes - 1)) == 0;
    return is_power && is_for_libdao(size_bytes, caller) && block_alloc(alignment_bytes, size_bytes, &address)
               ? address
               : __libc_memalign(alignment_bytes, size_bytes);
}

DAO_API void *malloc(size_t size_bytes)
{
    return alloc(size_bytes, CALLER());
}

DAO_API void free(void *address)
{
    if (dao_block_table_take(address) > 0) {
        block_free(address);
    } else {
        __libc_free(address);
    }
}

DAO_API void *calloc(size_t count, size_t size_bytes)
{
    size_t all_bytes;
    void *address;
    if (__builtin_mul_overflow(count, size_bytes, &all_bytes) || !is_for_libdao(all_bytes, CALLER()) ||
        !block_alloc(0, all_bytes, &address)) {
        return __libc_calloc(count, size_bytes); /* it refuses what overflows */
    }
    return address != NULL ? memset(address, 0, all_bytes) : NULL;
}

/* Moves what fits to a new block; the old one stays where there is none. */
static void *move(void *address, size_t old_bytes, size_t size_bytes, const void *caller)
{
    void *moved = alloc(size_bytes, caller);
    if (moved != NULL) {
        memcpy(moved, address, old_bytes < size_bytes ? old_bytes : size_bytes);
        free(address);
    }
    return moved;
}

static void *resize(void *address, size_t size_bytes, const void *caller)
{
    size_t old_bytes = address != NULL ? dao_block_table_get(address) : 0;
    if (address == NULL) {
        return alloc(size_bytes, caller);
    }
    if (old_bytes == 0) {
        return is_for_libdao(size_bytes, caller)
                   ? move(address, malloc_usable_size(address), size_bytes, caller)
                   : __libc_realloc(address, size_bytes);
    }
    if (size_bytes == 0) { /* as glibc does */
        free(address);
        return NULL;
    }
    return size_bytes <= old_bytes && size_bytes >= old_bytes / SHRINK_PART
               ? address
               : move(address, old_bytes, size_bytes, caller);
}

DAO_API void *realloc(void *address, size_t size_bytes)
{
    return resize(address, size_bytes, CALLER());
}

DAO_API void *reallocarray(void *address, size_t count, size_t size_bytes)
{
    size_t all_bytes;
    if (__builtin_mul_overflow(count, size_bytes, &all_bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return resize(address, all_bytes, CALLER());
}

DAO_API void *memalign(size_t alignment_bytes, size_t size_bytes)
{
    return alloc_aligned(alignment_bytes, size_bytes, CALLER());
}

DAO_API void *aligned_alloc(size_t alignment_bytes, size_t size_bytes)
{
    return alloc_aligned(alignment_bytes, size_bytes, CALLER());
}

DAO_API int posix_memalign(void **out_address, size_t alignment_bytes, size_t size_bytes)
{
    int error = errno;
    if (alignment_bytes % sizeof(void *) != 0 || alignment_bytes == 0 ||
        (alignment_bytes & (alignment_bytes - 1)) != 0) {
        return EINVAL;
    }
    void *address = alloc_aligned(alignment_bytes, size_bytes, CALLER());
    errno = error;
    if (address == NULL) {
        return ENOMEM;
    }
    *out_address = address;
    return 0;
}

DAO_API void *valloc(size_t size_bytes)
{
    return alloc_aligned((size_t)sysconf(_SC_PAGESIZE), size_bytes, CALLER());
}

DAO_API void *pvalloc(size_t size_bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t padded_bytes;
    if (__builtin_add_overflow(size_bytes, page_bytes - 1, &padded_bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return alloc_aligned(page_bytes, padded_bytes / page_bytes * page_bytes, CALLER());
}

DAO_API size_t malloc_usable_size(void *address)
{
    static _Atomic(size_t(*)(void *)) next; /* glibc has no other name for it */
    size_t size_bytes = dao_block_table_get(address);
    if (size_bytes > 0 || address == NULL) {
        return size_bytes;
    }
    if (atomic_load_explicit(&next, memory_order_relaxed) == NULL) {
        atomic_store_explicit(&next, (size_t(*)(void *))(uintptr_t)dlsym(RTLD_NEXT, "malloc_usable_size"),
                              memory_order_relaxed);
    }
    return atomic_load_explicit(&next, memory_order_relaxed)(address);
}

/* ---- steps ---- */

int dao_malloc_step_begin(void)
{
    enter();
    dao_status_t status = dao_iteration_begin(dao_cpu_place());
    is_inside = false;
    return (int)status;
}

int dao_malloc_step_end(void)
{
    enter();
    dao_status_t status = dao_iteration_end(dao_cpu_place());
    is_inside = false;
    return (int)status;
}

/* ---- the report ---- */

/* Writes one line, so that those of several processes stay apart. */
static void report_write(const char *path)
{
    static char text[2 * REPORT_BYTES + 512], place[REPORT_BYTES], serving[REPORT_BYTES];
    dao_place_t host = dao_place_of(dao_cpu_place());
    struct rusage usage;
    size_t place_bytes = dao_stats_json_write(host, place, sizeof(place));
    size_t serving_bytes = dao_serving_json_write(host, serving, sizeof(serving));
    (void)getrusage(RUSAGE_SELF, &usage);
    int length = snprintf(text, sizeof(text),
                          "{\"program\": \"%s\", \"process\": %ld, \"minor_faults\": %ld, "
                          "\"peak_resident_bytes\": %ld, \"place\": %s, \"serving\": %s}\n",
                          program_invocation_short_name, (long)getpid(), usage.ru_minflt,
                          usage.ru_maxrss * 1024, place_bytes - 1 < sizeof(place) ? place : "null",
                          serving_bytes - 1 < sizeof(serving) ? serving : "null");
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || length <= 0 || (size_t)length >= sizeof(text) ||
        write(file, text, (size_t)length) != length) {
        (void)dprintf(STDERR_FILENO, "libdao_malloc: DAO_MALLOC_REPORT: \"%s\": %s\n", path, strerror(errno));
    }
    if (file >= 0) {
        (void)close(file);
    }
}

/* ---- start and end ---- */

/* Looks for libdao's code, by a function of it that programs hardly have of their own. */
static int find_library(struct dl_phdr_info *object, size_t size, void *user)
{
    uintptr_t address = *(uintptr_t *)user;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 && address - begin < part->p_memsz) {
            library_begin = begin;
            library_end = begin + part->p_memsz;
            return 1;
        }
    }
    return 0;
}

static void read_smallest(void)
{
    const char *text = getenv("DAO_MALLOC_SMALLEST");
    char *end;
    if (text == NULL || text[0] == '\0') {
        return;
    }
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || bytes == 0) {
        (void)dprintf(STDERR_FILENO,
                      "libdao_malloc: DAO_MALLOC_SMALLEST: \"%s\" is no number of bytes; it is %zu\n", text,
                      SMALLEST_DEFAULT);
    } else {
        smallest_bytes = (size_t)bytes;
    }
}

static void fork_child(void)
{
    atomic_store(&is_on, false);
    dao_block_table_unlock();
}

__attribute__((constructor)) static void start(void)
{
    uintptr_t function = (uintptr_t)dlsym(RTLD_DEFAULT, "dao_alloc_with");
    read_smallest();
    dao_block_table_init();
    if (dl_iterate_phdr(find_library, &function) == 0 ||
        pthread_atfork(dao_block_table_lock, dao_block_table_unlock, fork_child) != 0) {
        (void)dprintf(STDERR_FILENO, "libdao_malloc: it cannot be told who allocates; all is glibc's\n");
        return;
    }
    atomic_store(&is_on, true);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("DAO_MALLOC_REPORT");
    if (path != NULL && path[0] != '\0' && atomic_load(&is_on)) {
        is_inside = true;
        report_write(path);
        is_inside = false;
    }
}
