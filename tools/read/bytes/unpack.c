/* SPDX-License-Identifier: Apache-2.0 */
/* Of the two methods one is there. zstd's frames may follow one another, as those of gzip.

   Invariant: zstd's input [at, end) are the packed bytes that are not used yet. */
#include "tools/read/bytes/unpack.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <string.h>

#if defined(DAO_HAS_ZSTD)
#include <zstd.h>
#endif

struct dao_unpack {
    dao_gunzip_t *gunzip; /* NULL: it is zstd */
#if defined(DAO_HAS_ZSTD)
    ZSTD_DStream *stream;
    size_t at, end;
    size_t wanted; /* by the frame that is open, at least; 0: none is open */
    uint64_t given_bytes;
    unsigned char input[DAO_GUNZIP_INPUT_BYTES];
#endif
};

static bool is_zstd(const unsigned char *bytes, size_t count)
{
    return count >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0;
}

bool dao_unpack_is_packed(const unsigned char *bytes, size_t count)
{
    return dao_gunzip_is_packed(bytes, count) || is_zstd(bytes, count);
}

#if defined(DAO_HAS_ZSTD)

static dao_status_t begin_zstd(dao_unpack_t *unpack, const unsigned char *bytes, size_t count)
{
    memcpy(unpack->input, bytes, count);
    unpack->end = count;
    unpack->stream = ZSTD_createDStream();
    return unpack->stream != NULL ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to unpack it");
}

static void end_zstd(dao_unpack_t *unpack)
{
    (void)ZSTD_freeDStream(unpack->stream); /* NULL is allowed; it cannot fail */
}

static dao_status_t next_zstd(dao_unpack_t *unpack, dao_gunzip_read_t read, void *user,
                              unsigned char *out_bytes, size_t most, size_t *out_count)
{
    ZSTD_outBuffer out = {.dst = out_bytes, .size = most};
    while (out.pos == 0) {
        if (unpack->at == unpack->end) {
            unpack->at = 0;
            dao_status_t status = read(user, unpack->input, sizeof(unpack->input), &unpack->end);
            if (status != DAO_OK) {
                unpack->end = 0;
                return status;
            }
            if (unpack->end == 0) {
                *out_count = 0;
                return unpack->wanted != 0 ? dao_error(DAO_ERR_PARSE, "the packed file is cut off") : DAO_OK;
            }
        }
        ZSTD_inBuffer in = {.src = unpack->input, .size = unpack->end, .pos = unpack->at};
        unpack->wanted = ZSTD_decompressStream(unpack->stream, &out, &in);
        unpack->at = in.pos;
        if (ZSTD_isError(unpack->wanted)) {
            return dao_error(DAO_ERR_PARSE, "the packed file is damaged: %s",
                             ZSTD_getErrorName(unpack->wanted));
        }
    }
    *out_count = out.pos;
    unpack->given_bytes += out.pos;
    return unpack->given_bytes <= DAO_GUNZIP_BYTES_MAX
               ? DAO_OK
               : dao_error(DAO_ERR_PARSE, "it unpacks to more than %llu bytes",
                           (unsigned long long)DAO_GUNZIP_BYTES_MAX);
}

#else

static dao_status_t begin_zstd(dao_unpack_t *unpack, const unsigned char *bytes, size_t count)
{
    (void)unpack;
    (void)bytes;
    (void)count;
    return dao_error(DAO_ERR_UNSUPPORTED, "packed by zstd, which this dao was built without: unpack it with "
                                          "zstd -d, or pack it by gzip");
}

static void end_zstd(dao_unpack_t *unpack)
{
    (void)unpack;
}

static dao_status_t next_zstd(dao_unpack_t *unpack, dao_gunzip_read_t read, void *user,
                              unsigned char *out_bytes, size_t most, size_t *out_count)
{
    (void)unpack;
    (void)read;
    (void)user;
    (void)out_bytes;
    (void)most;
    *out_count = 0;
    return DAO_OK;
}

#endif

dao_status_t dao_unpack_create(const unsigned char *bytes, size_t count, dao_unpack_t **out_unpack)
{
    dao_unpack_t *unpack = dao_host_calloc(1, sizeof(*unpack));
    if (unpack == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to unpack it");
    }
    dao_status_t status = is_zstd(bytes, count) ? begin_zstd(unpack, bytes, count)
                                                : dao_gunzip_create(bytes, count, &unpack->gunzip);
    if (status != DAO_OK) {
        dao_host_free(unpack);
        return status;
    }
    *out_unpack = unpack;
    return DAO_OK;
}

void dao_unpack_destroy(dao_unpack_t *unpack)
{
    if (unpack != NULL) {
        dao_gunzip_destroy(unpack->gunzip);
        end_zstd(unpack);
        dao_host_free(unpack);
    }
}

dao_status_t dao_unpack_next(dao_unpack_t *unpack, dao_gunzip_read_t read, void *user,
                             unsigned char *out_bytes, size_t most, size_t *out_count)
{
    return unpack->gunzip != NULL ? dao_gunzip_next(unpack->gunzip, read, user, out_bytes, most, out_count)
                                  : next_zstd(unpack, read, user, out_bytes, most, out_count);
}
