/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/report/page_bytes.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "base/text/json_text.h"
#include "tools/base/grow.h"
#include "tools/base/progress.h"

#include <string.h>
#include <zlib.h>

enum {
    PACKED_BYTES = 3 << 12,
    SLICE_BYTES = 1 << 20, /* between two words of how far it is */
};

void dao_page_bytes_finish(dao_page_bytes_t *page)
{
    dao_host_free(page->bytes);
    *page = (dao_page_bytes_t){0};
}

static void put_byte(dao_page_bytes_t *page, unsigned char byte)
{
    unsigned char *bytes = dao_tool_grow(page->bytes, &page->capacity, page->count, 1);
    if (bytes == NULL || page->has_failed) {
        page->has_failed = true;
        return;
    }
    page->bytes = bytes;
    bytes[page->count++] = byte;
}

void dao_page_put_number(dao_page_bytes_t *page, uint64_t number)
{
    for (; number >= 0x80; number >>= 7) {
        put_byte(page, (unsigned char)(number | 0x80));
    }
    put_byte(page, (unsigned char)number);
}

void dao_page_put_signed(dao_page_bytes_t *page, int64_t number)
{
    uint64_t magnitude = number < 0 ? (uint64_t)-number : (uint64_t)number;
    dao_page_put_number(page, magnitude << 1 | (number < 0));
}

void dao_page_put_column(dao_page_bytes_t *page, const uint64_t *numbers, size_t count)
{
    uint64_t most = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < count; i++) {
        most |= numbers[i];
    }
    for (; most != 0; most >>= 8) {
        bits += 8;
    }
    put_byte(page, (unsigned char)(bits / 8));
    for (unsigned shift = 0; shift < bits; shift += 8) {
        for (size_t i = 0; i < count; i++) {
            put_byte(page, (unsigned char)(numbers[i] >> shift));
        }
    }
}

void dao_page_put_text(dao_page_bytes_t *page, const char *text)
{
    for (; *text != '\0'; text++) {
        put_byte(page, (unsigned char)*text);
    }
}

void dao_page_put_json(dao_page_bytes_t *page, const char *text)
{
    char piece[DAO_JSON_PIECE_BYTES];
    put_byte(page, '"');
    while (dao_json_text_next(&text, piece) > 0) {
        dao_page_put_text(page, piece);
    }
    put_byte(page, '"');
}

/* Writes three bytes as four letters; `count` of them are there. */
static void write_letters(FILE *file, const unsigned char *bytes, size_t count)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char three[3] = {0};
    memcpy(three, bytes, count);
    (void)fputc(letters[three[0] >> 2], file);
    (void)fputc(letters[(three[0] & 3) << 4 | three[1] >> 4], file);
    (void)fputc(count > 1 ? letters[(three[1] & 15) << 2 | three[2] >> 6] : '=', file);
    (void)fputc(count > 2 ? letters[three[2] & 63] : '=', file);
}

/* Packs and writes all bytes. Returns what zlib says: Z_STREAM_END if all is well. */
static int write_packed(FILE *file, const dao_page_bytes_t *page)
{
    unsigned char packed[PACKED_BYTES];
    size_t given = 0;
    z_stream stream = {0};
    int result = deflateInit(&stream, Z_DEFAULT_COMPRESSION);
    stream.next_out = packed;
    stream.avail_out = sizeof(packed);
    while (result == Z_OK) {
        if (stream.avail_in == 0) {
            stream.next_in = page->bytes + given;
            stream.avail_in = (uInt)dao_smaller(page->count - given, SLICE_BYTES);
            given += stream.avail_in;
        }
        result = deflate(&stream, given == page->count ? Z_FINISH : Z_NO_FLUSH);
        dao_progress_set(given - stream.avail_in);
        size_t count = sizeof(packed) - stream.avail_out;
        if (stream.avail_out == 0 || result == Z_STREAM_END) { /* letters stand for whole threes until then */
            for (size_t i = 0; i < count; i += 3) {
                write_letters(file, packed + i, count - i < 3 ? count - i : 3);
            }
            stream.next_out = packed;
            stream.avail_out = sizeof(packed);
        }
    }
    (void)deflateEnd(&stream);
    return result;
}

dao_status_t dao_page_bytes_write(FILE *file, const dao_page_bytes_t *page)
{
    dao_progress_total(DAO_PROGRESS_UNIT_BYTES, page->count);
    return !page->has_failed && write_packed(file, page) == Z_STREAM_END
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to pack %zu bytes of a page", page->count);
}
