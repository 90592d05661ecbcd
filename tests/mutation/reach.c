// SPDX-License-Identifier: Apache-2.0
/*
 * Notes which functions of libdao a suite enters: part of the library that reach.py builds, whose functions
 * call the one below as they begin. For each, a byte of the file that MUTATION_REACH names becomes 1: at the
 * function's distance from where the library begins. The file is shared, so that what child processes enter,
 * and those that end in a signal, is there as well.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden"))); // the library's first byte, by ld

static unsigned char *entered;
static size_t entered_bytes;

__attribute__((constructor(101))) static void map_file(void)
{
    const char *path = getenv("MUTATION_REACH");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) {
        return;
    }
    void *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file); // it was only read
    if (mapped != MAP_FAILED) {
        entered_bytes = (size_t)status.st_size;
        entered = mapped;
    }
}

// Compilers call it, by this name.
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    size_t offset = (uintptr_t)function - (uintptr_t)__ehdr_start;
    if (entered != NULL && offset < entered_bytes) {
        entered[offset] = 1;
    }
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}
