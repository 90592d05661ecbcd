/* SPDX-License-Identifier: Apache-2.0 */
/* malloc() and its family over libdao's host place.

       malloc(n) -- small, called by libdao, in a child, before the start --> glibc
         |
         +--> dao_alloc(), added to the block table --> the program
                                                              |
                glibc <-- not in it -- free(), realloc() <----+
                                         |
                                         +--> dao_free()

   Blocks have no header: the address alone tells whose a block is, so no content can be mistaken for one.

   libdao itself calls malloc(), directly and through glibc and the loader, even under its locks. Such a call
   is recognised by its return address, or because the thread is inside a libdao call made here. It goes to
   glibc. */
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
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

/* Requests of at least this size go to libdao, unless DAO_MALLOC_SMALLEST is set. The host place would take
   smaller ones from malloc() again. */
#define SMALLEST_DEFAULT (((size_t)32 << 10) + 1)

/* Room for the JSON of a place, and for that of its step plan, in a line of DAO_MALLOC_REPORT. */
#define REPORT_BYTES 8192
#define NAME_BYTES   64

/* A block that shrinks below 1 / SHRINK_PART of its size moves to a smaller one. */
#define SHRINK_PART 2u

/* A block that grows to this size moves to glibc, which grows it further by moving pages instead of copying.
   A calloc() of CLEAR_LARGE_BYTES goes to glibc, too: its fresh pages are zero, and most may never be
   touched. */
#define GROWN_LARGE_BYTES ((size_t)1 << 20)
#define CLEAR_LARGE_BYTES ((size_t)16 << 20)

/* glibc's own functions, under the names that stay its own. */
extern void *__libc_malloc(size_t size_bytes);
extern void *__libc_calloc(size_t count, size_t size_bytes);
extern void *__libc_realloc(void *address, size_t size_bytes);
extern void *__libc_memalign(size_t alignment_bytes, size_t size_bytes);
extern void __libc_free(void *address);

#define CALLER() __builtin_return_address(0)

/* The code of a loaded object. */
typedef struct code {
    uintptr_t begin, end;
} code_t;

/* DAO_OK: libdao may be called. Set by the start, and withdrawn in a forked child or if libdao does not
   start. */
static _Atomic int refusal = DAO_ERR_NOT_READY;
static size_t smallest_bytes = SMALLEST_DEFAULT;
static code_t excluded[3]; /* callers whose requests go to glibc: libdao, glibc, the loader */
static pthread_once_t library_once = PTHREAD_ONCE_INIT;
/* This thread is inside a libdao call that was made here. */
static __thread bool is_inside __attribute__((tls_model("initial-exec")));

/* ---- blocks of libdao ---- */

static bool is_on(void)
{
    return atomic_load_explicit(&refusal, memory_order_relaxed) == (int)DAO_OK;
}

static bool is_for_libdao(size_t size_bytes, const void *caller)
{
    bool is = size_bytes >= smallest_bytes && !is_inside && is_on();
    for (size_t i = 0; is && i < sizeof(excluded) / sizeof(excluded[0]); i++) {
        is = (uintptr_t)caller - excluded[i].begin >= excluded[i].end - excluded[i].begin;
    }
    return is;
}

/* Returns true if libdao answered that there is no memory. glibc is not asked then: the limit is the
   user's. */
static bool is_short(dao_status_t status)
{
    return status == DAO_ERR_LIMIT || status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_OVERFLOW;
}

/* Starts libdao for the rest of the process. A program that uses libdao itself may stop it; blocks stay
   valid. */
static void library_start(void)
{
    dao_status_t status = dao_init(NULL);
    if (status != DAO_OK) {
        (void)dprintf(STDERR_FILENO, "libdao_malloc: all memory is glibc's: %s\n", dao_last_message());
        atomic_store(&refusal, (int)status);
    }
}

/* Begins a call of libdao. Returns the state for leave(). Calls nest, in callbacks of the program. */
static bool enter(void)
{
    bool was_inside = is_inside;
    is_inside = true;
    if (is_on()) { /* a forked child starts nothing */
        (void)pthread_once(&library_once, library_start);
    }
    return was_inside;
}

static void leave(bool was_inside)
{
    is_inside = was_inside;
}

static void block_free(void *address)
{
    int error = errno;
    if (is_on()) { /* in a child the block belongs to the parent */
        bool was_inside = enter();
        if (dao_free(dao_cpu_place(), address) != DAO_OK && dao_last_status() != DAO_ERR_SHUTDOWN) {
            (void)dprintf(STDERR_FILENO, "libdao_malloc: %s\n", dao_last_message());
        }
        leave(was_inside);
    }
    errno = error;
}

/* Returns false if glibc is to be asked instead. */
static bool block_alloc(size_t alignment_bytes, size_t size_bytes, void **out_address)
{
    int error = errno;
    dao_alloc_options_t options = {.alignment_bytes = alignment_bytes};
    bool was_inside = enter();
    void *address = dao_alloc_with(dao_place_of(dao_cpu_place()), size_bytes, &options);
    bool is_answered = address != NULL || is_short(dao_last_status());
    leave(was_inside);
    if (address != NULL && !dao_block_table_put(address, size_bytes)) {
        block_free(address);
        address = NULL;
    }
    errno = is_answered && address == NULL ? ENOMEM : error;
    *out_address = address;
    return is_answered;
}

/* glibc has no name of its own for malloc_usable_size(), and the next library that has one need not be glibc:
   a program may be linked with another allocator. So glibc is asked by its handle. */
static size_t glibc_usable_size(void *address)
{
    static _Atomic(size_t(*)(void *)) usable_size;
    if (atomic_load_explicit(&usable_size, memory_order_relaxed) == NULL) {
        void *glibc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD); /* it is loaded and stays */
        void *found = glibc != NULL ? dlsym(glibc, "malloc_usable_size") : NULL;
        if (found == NULL) {
            return 0; /* callers of malloc_usable_size() may use none of it then */
        }
        atomic_store_explicit(&usable_size, (size_t(*)(void *))(uintptr_t)found, memory_order_relaxed);
    }
    return atomic_load_explicit(&usable_size, memory_order_relaxed)(address);
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
    if (__builtin_mul_overflow(count, size_bytes, &all_bytes) || all_bytes >= CLEAR_LARGE_BYTES ||
        !is_for_libdao(all_bytes, CALLER()) || !block_alloc(0, all_bytes, &address)) {
        return __libc_calloc(count, size_bytes); /* it refuses an overflow */
    }
    return address != NULL ? memset(address, 0, all_bytes) : NULL;
}

/* Moves the content to a new block, as far as it fits. Without one, the old block stays. */
static void *move(void *address, size_t old_bytes, size_t size_bytes, const void *caller)
{
    bool is_large = size_bytes > old_bytes && size_bytes >= GROWN_LARGE_BYTES;
    void *moved = is_large ? __libc_malloc(size_bytes) : alloc(size_bytes, caller);
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
        bool is_moved = size_bytes < GROWN_LARGE_BYTES && is_for_libdao(size_bytes, caller);
        size_t usable_bytes = is_moved ? glibc_usable_size(address) : 0; /* 0: only glibc knows */
        return usable_bytes > 0 ? move(address, usable_bytes, size_bytes, caller)
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

/* Unlike memalign(), it rounds no alignment up. */
DAO_API void *aligned_alloc(size_t alignment_bytes, size_t size_bytes)
{
    if (alignment_bytes == 0 || (alignment_bytes & (alignment_bytes - 1)) != 0) {
        errno = EINVAL;
        return NULL;
    }
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
    size_t size_bytes = dao_block_table_get(address);
    return size_bytes > 0 || address == NULL ? size_bytes : glibc_usable_size(address);
}

/* ---- steps ---- */

/* Calls libdao, or returns why it cannot be called. */
static int step(dao_status_t (*boundary)(dao_place_t place))
{
    bool was_inside = enter();
    int status = atomic_load(&refusal);
    status = status == (int)DAO_OK ? (int)boundary(dao_place_of(dao_cpu_place())) : status;
    leave(was_inside);
    return status;
}

int dao_malloc_step_begin(void)
{
    return step((dao_step_begin));
}

int dao_malloc_step_end(void)
{
    return step((dao_step_end));
}

/* ---- the report ---- */

/* Copies the program's name, with '?' for characters that JSON would escape. */
static void write_name(char out_name[NAME_BYTES])
{
    (void)snprintf(out_name, NAME_BYTES, "%s", program_invocation_short_name);
    for (char *at = out_name; *at != '\0'; at++) {
        bool is_plain = *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\';
        if (!is_plain) {
            *at = '?';
        }
    }
}

/* Appends one line by one write, so lines of several processes do not mix. */
static void report_write(const char *path)
{
    static char text[2 * REPORT_BYTES + 512], place[REPORT_BYTES], step_plan[REPORT_BYTES];
    dao_place_t host = dao_place_of(dao_cpu_place());
    char name[NAME_BYTES];
    struct rusage usage;
    size_t place_bytes = dao_stats_json_write(host, place, sizeof(place));
    size_t step_plan_bytes = dao_step_plan_json_write(host, step_plan, sizeof(step_plan));
    (void)getrusage(RUSAGE_SELF, &usage);
    write_name(name);
    int length = snprintf(text, sizeof(text),
                          "{\"program\": \"%s\", \"process\": %ld, \"minor_faults\": %ld, "
                          "\"peak_resident_bytes\": %ld, \"place\": %s, \"step_plan\": %s}\n",
                          name, (long)getpid(), usage.ru_minflt, usage.ru_maxrss * 1024,
                          place_bytes - 1 < sizeof(place) ? place : "null",
                          step_plan_bytes - 1 < sizeof(step_plan) ? step_plan : "null");
    /* a limit of file sizes fails the write, and does not end the program */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    (void)sigaction(SIGXFSZ, &ignore, &before);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    ssize_t written = file >= 0 ? write(file, text, (size_t)length) : -1;
    if (written != length) {
        (void)dprintf(STDERR_FILENO, "libdao_malloc: DAO_MALLOC_REPORT: \"%s\": %s\n", path,
                      written < 0 ? strerror(errno) : "no room for the whole line");
    }
    if (file >= 0) {
        (void)close(file);
    }
    (void)sigaction(SIGXFSZ, &before, NULL);
}

/* ---- start and end ---- */

/* A search for the code of the object around an address. */
typedef struct code_search {
    uintptr_t address;
    code_t *out_code;
} code_search_t;

static int look_at_object(struct dl_phdr_info *object, size_t size, void *user)
{
    const code_search_t *search = user;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 &&
            search->address - begin < part->p_memsz) {
            *search->out_code = (code_t){begin, begin + part->p_memsz};
            return 1;
        }
    }
    return 0;
}

/* Finds the excluded code by functions that other libraries do not replace. */
static bool find_excluded(void)
{
    static const char *const names[] = {"dao_alloc_with", "__libc_malloc", "__tls_get_addr"};
    bool is_found = true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && is_found; i++) {
        code_search_t search = {(uintptr_t)dlsym(RTLD_DEFAULT, names[i]), &excluded[i]};
        is_found = dl_iterate_phdr(look_at_object, &search) != 0;
    }
    return is_found;
}

/* getenv() for the time before glibc has started itself. */
static const char *find_setting(char **environment, const char *name)
{
    size_t length = strlen(name);
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return *environment + length + 1;
        }
    }
    return NULL;
}

static void read_smallest(const char *text)
{
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
    atomic_store(&refusal, (int)DAO_ERR_FORKED);
    dao_block_table_unlock();
}

/* Runs before other constructors (-z initfirst), so its fork handler is the last one before a fork and no
   other handler finds the table locked. glibc passes constructors the arguments of main(). */
__attribute__((constructor)) static void start(int argument_count, char **arguments, char **environment)
{
    (void)argument_count;
    (void)arguments;
    read_smallest(getauxval(AT_SECURE) == 0 ? find_setting(environment, "DAO_MALLOC_SMALLEST") : NULL);
    dao_block_table_init();
    if (!find_excluded() || pthread_atfork(dao_block_table_lock, dao_block_table_unlock, fork_child) != 0) {
        (void)dprintf(STDERR_FILENO, "libdao_malloc: callers cannot be told apart; all memory is glibc's\n");
        return;
    }
    atomic_store(&refusal, (int)DAO_OK);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = secure_getenv("DAO_MALLOC_REPORT");
    if (path != NULL && path[0] != '\0' && is_on()) {
        bool was_inside = enter();
        report_write(path);
        leave(was_inside);
    }
}
