/* SPDX-License-Identifier: Apache-2.0 */
/* zlib does the work. A file may be several gzip members in a row, as `cat` makes them.

   Invariant: stream.next_in .. + avail_in are the packed bytes that are not used yet; is_open: inside of a
   member. */
#include "tools/read/bytes/gunzip.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <string.h>
#include <zlib.h>

/* zlib's: the largest window, and that a gzip header is there. */
enum { WINDOW_BITS = 15 + 16 };

struct dao_gunzip {
    z_stream stream;
    uint64_t given_bytes;
    bool is_open;
    unsigned char input[DAO_GUNZIP_INPUT_BYTES];
};

static voidpf alloc_for_zlib(voidpf user, uInt count, uInt size_bytes)
{
    (void)user;
    return dao_host_calloc(count, size_bytes);
}

static void free_for_zlib(voidpf user, voidpf address)
{
    (void)user;
    dao_host_free(address);
}

bool dao_gunzip_is_packed(const unsigned char *bytes, size_t count)
{
    return count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

dao_status_t dao_gunzip_create(const unsigned char *bytes, size_t count, dao_gunzip_t **out_gunzip)
{
    dao_gunzip_t *gunzip = dao_host_calloc(1, sizeof(*gunzip));
    if (gunzip == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to unpack it");
    }
    memcpy(gunzip->input, bytes, count);
    gunzip->stream = (z_stream){
        .zalloc = alloc_for_zlib, .zfree = free_for_zlib, .next_in = gunzip->input, .avail_in = (uInt)count};
    if (inflateInit2(&gunzip->stream, WINDOW_BITS) != Z_OK) {
        dao_host_free(gunzip);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to unpack it");
    }
    gunzip->is_open = true;
    *out_gunzip = gunzip;
    return DAO_OK;
}

void dao_gunzip_destroy(dao_gunzip_t *gunzip)
{
    if (gunzip != NULL) {
        (void)inflateEnd(&gunzip->stream); /* what it did not finish is dropped */
        dao_host_free(gunzip);
    }
}

static dao_status_t refill(dao_gunzip_t *gunzip, dao_gunzip_read_t read, void *user)
{
    size_t count = 0;
    dao_status_t status = read(user, gunzip->input, sizeof(gunzip->input), &count);
    gunzip->stream.next_in = gunzip->input;
    gunzip->stream.avail_in = status == DAO_OK ? (uInt)count : 0;
    return status;
}

/* Takes what inflate() answered. */
static dao_status_t take_result(dao_gunzip_t *gunzip, int result)
{
    switch (result) {
    case Z_OK:
    case Z_BUF_ERROR: /* it wants more input, which is looked after */
        return DAO_OK;
    case Z_STREAM_END:
        gunzip->is_open = false;
        return DAO_OK;
    case Z_MEM_ERROR:
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to unpack it");
    default:
        return dao_error(DAO_ERR_PARSE, "the packed file is damaged: %s",
                         gunzip->stream.msg != NULL ? gunzip->stream.msg : "no gzip data");
    }
}

dao_status_t dao_gunzip_next(dao_gunzip_t *gunzip, dao_gunzip_read_t read, void *user,
                             unsigned char *out_bytes, size_t most, size_t *out_count)
{
    z_stream *stream = &gunzip->stream;
    stream->next_out = out_bytes;
    stream->avail_out = (uInt)most;
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && stream->avail_out == most) {
        if (stream->avail_in == 0) {
            status = refill(gunzip, read, user);
        }
        if (status == DAO_OK && stream->avail_in == 0) {
            *out_count = 0;
            return gunzip->is_open ? dao_error(DAO_ERR_PARSE, "the packed file is cut off") : DAO_OK;
        }
        if (status == DAO_OK && !gunzip->is_open) {
            (void)inflateReset(stream); /* it can only refuse a stream that is none */
            gunzip->is_open = true;
        }
        if (status == DAO_OK) {
            status = take_result(gunzip, inflate(stream, Z_NO_FLUSH));
        }
    }
    *out_count = most - stream->avail_out;
    gunzip->given_bytes += *out_count;
    if (status == DAO_OK && gunzip->given_bytes > DAO_GUNZIP_BYTES_MAX) {
        return dao_error(DAO_ERR_PARSE, "it unpacks to more than %llu bytes",
                         (unsigned long long)DAO_GUNZIP_BYTES_MAX);
    }
    return status;
}
