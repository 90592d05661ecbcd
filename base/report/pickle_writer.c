/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes as pickletools.py of Python lists them. */
#include "base/report/pickle_writer.h"

#include "base/text/utf8.h"

#include <string.h>

enum {
    OP_PROTO = 0x80,
    OP_STOP = '.',
    OP_MARK = '(',
    OP_EMPTY_DICT = '}',
    OP_SETITEMS = 'u',
    OP_EMPTY_LIST = ']',
    OP_APPENDS = 'e',
    OP_BINUNICODE = 'X',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_BININT = 'J',
    OP_LONG1 = 0x8a,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
};

enum { PROTOCOL = 2, LONG_BYTES_MAX = 9 };

static void flush(dao_pickle_writer_t *pickle)
{
    if (pickle->status == DAO_OK && pickle->used > 0) {
        pickle->status = pickle->write(pickle->piece, pickle->used, pickle->user);
    }
    pickle->used = 0;
}

static void put(dao_pickle_writer_t *pickle, const void *bytes, size_t count)
{
    const char *from = bytes;
    while (count > 0) {
        size_t part = sizeof(pickle->piece) - pickle->used;
        part = part < count ? part : count;
        memcpy(pickle->piece + pickle->used, from, part);
        pickle->used += part;
        from += part;
        count -= part;
        if (pickle->used == sizeof(pickle->piece)) {
            flush(pickle);
        }
    }
}

/* An opcode and a number of `bytes` bytes behind it, the lowest first. */
static void put_op(dao_pickle_writer_t *pickle, unsigned op, uint64_t number, size_t bytes)
{
    unsigned char text[1 + sizeof(number)] = {(unsigned char)op};
    for (size_t i = 0; i < bytes; i++) {
        text[1 + i] = (unsigned char)(number >> 8 * i);
    }
    put(pickle, text, 1 + bytes);
}

void dao_pickle_begin(dao_pickle_writer_t *pickle, dao_pickle_write_t write, void *user)
{
    pickle->write = write;
    pickle->user = user;
    pickle->status = DAO_OK;
    pickle->memo_count = 0;
    pickle->used = 0;
    put_op(pickle, OP_PROTO, PROTOCOL, 1);
}

dao_status_t dao_pickle_end(dao_pickle_writer_t *pickle)
{
    put_op(pickle, OP_STOP, 0, 0);
    flush(pickle);
    return pickle->status;
}

void dao_pickle_dict_begin(dao_pickle_writer_t *pickle)
{
    put_op(pickle, OP_EMPTY_DICT, 0, 0);
    put_op(pickle, OP_MARK, 0, 0);
}

void dao_pickle_dict_end(dao_pickle_writer_t *pickle)
{
    put_op(pickle, OP_SETITEMS, 0, 0);
}

void dao_pickle_list_begin(dao_pickle_writer_t *pickle)
{
    put_op(pickle, OP_EMPTY_LIST, 0, 0);
    put_op(pickle, OP_MARK, 0, 0);
}

void dao_pickle_list_item(dao_pickle_writer_t *pickle, uint32_t *count)
{
    if (*count == DAO_PICKLE_BATCH_ITEMS) {
        put_op(pickle, OP_APPENDS, 0, 0);
        put_op(pickle, OP_MARK, 0, 0);
        *count = 0;
    }
    (*count)++;
}

void dao_pickle_list_end(dao_pickle_writer_t *pickle)
{
    put_op(pickle, OP_APPENDS, 0, 0);
}

void dao_pickle_note(dao_pickle_writer_t *pickle, dao_pickle_memo_t *memo)
{
    uint32_t number = pickle->memo_count++;
    *memo = number + 1;
    if (number <= UINT8_MAX) {
        put_op(pickle, OP_BINPUT, number, 1);
    } else {
        put_op(pickle, OP_LONG_BINPUT, number, 4);
    }
}

void dao_pickle_again(dao_pickle_writer_t *pickle, dao_pickle_memo_t memo)
{
    uint32_t number = memo - 1;
    if (number <= UINT8_MAX) {
        put_op(pickle, OP_BINGET, number, 1);
    } else {
        put_op(pickle, OP_LONG_BINGET, number, 4);
    }
}

void dao_pickle_text(dao_pickle_writer_t *pickle, const char *text, dao_pickle_memo_t *memo)
{
    const char *character = NULL;
    size_t length = 0, count;
    if (memo != NULL && *memo != 0) {
        dao_pickle_again(pickle, *memo);
        return;
    }
    for (const char *at = text; (count = dao_utf8_next(&at, &character)) > 0;) {
        length += count;
    }
    put_op(pickle, OP_BINUNICODE, length, 4);
    while ((count = dao_utf8_next(&text, &character)) > 0) {
        put(pickle, character, count);
    }
    if (memo != NULL) {
        dao_pickle_note(pickle, memo);
    }
}

void dao_pickle_count(dao_pickle_writer_t *pickle, uint64_t count)
{
    unsigned char digits[2 + LONG_BYTES_MAX] = {OP_LONG1, 0};
    if (count <= UINT8_MAX) {
        put_op(pickle, OP_BININT1, count, 1);
    } else if (count <= UINT16_MAX) {
        put_op(pickle, OP_BININT2, count, 2);
    } else if (count <= INT32_MAX) {
        put_op(pickle, OP_BININT, count, 4);
    } else { /* with a sign: a zero behind digits whose highest bit is set */
        size_t length = 0;
        for (uint64_t rest = count; rest > 0; rest >>= 8) {
            digits[2 + length++] = (unsigned char)rest;
        }
        length += digits[1 + length] >= 0x80;
        digits[1] = (unsigned char)length;
        put(pickle, digits, 2 + length);
    }
}

void dao_pickle_flag(dao_pickle_writer_t *pickle, bool flag)
{
    put_op(pickle, flag ? OP_NEWTRUE : OP_NEWFALSE, 0, 0);
}

void dao_pickle_empty_list(dao_pickle_writer_t *pickle, dao_pickle_memo_t *memo)
{
    if (*memo != 0) {
        dao_pickle_again(pickle, *memo);
        return;
    }
    put_op(pickle, OP_EMPTY_LIST, 0, 0);
    dao_pickle_note(pickle, memo);
}
