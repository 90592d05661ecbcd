/* SPDX-License-Identifier: Apache-2.0 */
/* A place of a program's own memory: blocks in a mapped file, divided, limited and counted as on a device.
   Who has an accelerator that the library has no backend for replaces obtain() and release() by its runtime's
   calls, and adds `copy`, and events where it has streams. */
#define _GNU_SOURCE /* ftruncate */
#include <dao/dao.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 20 };

/* The file grows at its end; what is given back stays a hole in it. */
typedef struct scratch {
    int file;
    off_t end;
} scratch_t;

static dao_status_t obtain(void *user, size_t size_bytes, void **out_address)
{
    scratch_t *scratch = user;
    if (ftruncate(scratch->file, scratch->end + (off_t)size_bytes) != 0) {
        return DAO_ERR_NO_DEVICE_MEMORY;
    }
    void *address = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, scratch->file, scratch->end);
    if (address == MAP_FAILED) {
        return DAO_ERR_NO_DEVICE_MEMORY;
    }
    scratch->end += (off_t)size_bytes;
    *out_address = address;
    return DAO_OK;
}

static dao_status_t release(void *user, void *address, size_t size_bytes)
{
    (void)user;
    return munmap(address, size_bytes) == 0 ? DAO_OK : DAO_ERR_BACKEND;
}

static int fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s: %s\n", what, dao_status_name(dao_last_status()), dao_last_message());
    return 1;
}

int main(void)
{
    FILE *file = tmpfile();
    scratch_t scratch = {.file = file != NULL ? fileno(file) : -1};
    dao_own_memory_t memory = {.name = "scratch file",
                               .user = &scratch,
                               .capacity_bytes = FILE_BYTES,
                               .obtain = obtain,
                               .release = release};
    dao_place_t place;
    if (file == NULL || dao_place_register(&memory, &place) != DAO_OK) {
        return fail("register");
    }
    if (dao_limit_set(place, FILE_BYTES / 2) != DAO_OK) {
        return fail("limit");
    }
    char text[] = "bytes in a file", returned[sizeof(text)];
    char name[DAO_PLACE_TEXT_BYTES];
    void *block = dao_alloc(place, 1 << 20);
    if (block == NULL || dao_copy(place, block, dao_cpu_place(), text, sizeof(text)) != DAO_OK ||
        dao_copy(dao_cpu_place(), returned, place, block, sizeof(text)) != DAO_OK) {
        return fail("copy");
    }
    (void)printf("%s holds %zu bytes for us: %s\n", dao_place_format(place, name), dao_used(place), returned);
    if (dao_alloc(place, FILE_BYTES) != NULL || dao_last_status() != DAO_ERR_LIMIT) {
        return fail("more than the limit");
    }
    if (dao_free(place, block) != DAO_OK) {
        return fail("free");
    }
    int result = dao_finalize() == DAO_OK ? 0 : fail("finalize"); /* releases what is left */
    (void)fclose(file);
    return result;
}
