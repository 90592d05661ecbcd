/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of pickles: opcodes push values, and put what lies above a mark into the list or dictionary
   below it. What each opcode does is said in Python's pickletools.py.

       stack   [ dict ][ key ][ item ][ key ][ item ]      SETITEMS puts two pairs into the dictionary
       marks           ^ 1                                 the place of the latest mark

   A memo numbers what was said, so that it can be said again by its number. A list or a dictionary is open
   until it is put somewhere; equal ones are one from then on, but for those that the memo has said again
   before, whose number others have. Dictionaries in lists are handed over to the reader, which may take them.
   Invariants: marks are places in the stack, in order; the memo has no
   holes, and a number keeps its value; an open value is one slot of the stack and at most one number of the
   memo. */
#include "tools/read/foreign/values/pickle.h"

#include "base/report/assert.h"
#include "base/report/format.h"
#include "tools/base/grow.h"
#include "tools/read/bytes/text_source.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longest text: names of operators and files. */
enum { TEXT_BYTES_MAX = 1 << 20 };

/* Python puts at most a thousand items at a time on the stack; a hostile file could put all of its own. */
enum { STACK_COUNT_MAX = 1 << 20 };

typedef struct slot {
    dao_value_t value;
    uint32_t memo; /* that has it, plus 1; 0: none */
    bool is_open;
} slot_t;

typedef struct memo {
    uint32_t payload;
    uint8_t type;
    bool is_said; /* again */
} memo_t;

typedef struct pickle {
    dao_text_source_t source;
    uint64_t offset; /* of the opcode */
    dao_value_store_t *store;
    slot_t *stack;
    size_t stack_count, stack_capacity;
    size_t *marks;
    size_t mark_count, mark_capacity;
    memo_t *memo;
    size_t memo_count, memo_capacity;
    char *text;
    bool is_ended;
} pickle_t;

typedef enum opcode {
    OP_PROTO = 0x80,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_MEMOIZE = 0x94,
    OP_FRAME = 0x95,
    OP_MARK = '(',
    OP_EMPTY_TUPLE = ')',
    OP_STOP = '.',
    OP_BINFLOAT = 'G',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPEND = 'a',
    OP_DICT = 'd',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_LIST = 'l',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
} opcode_t;

/* ---- bytes ---- */

DAO_PRINTF(2, 3) static dao_status_t wrong(const pickle_t *pickle, const char *format, ...)
{
    char what[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return dao_error(DAO_ERR_PARSE, "%s: byte %" PRIu64 ": %s", dao_text_source_name(&pickle->source),
                     pickle->offset, what);
}

static dao_status_t take_bytes(pickle_t *pickle, void *out_bytes, size_t count)
{
    size_t taken = 0;
    dao_status_t status = dao_text_source_read(&pickle->source, out_bytes, count, &taken);
    return status == DAO_OK && taken < count ? wrong(pickle, "the file is cut off here") : status;
}

/* Takes a number of one to eight bytes, the low ones first. */
static dao_status_t take_number(pickle_t *pickle, size_t bytes, uint64_t *out_number)
{
    unsigned char raw[8] = {0};
    const unsigned char *at = dao_text_source_here(&pickle->source, bytes);
    dao_status_t status = DAO_OK;
    if (at == NULL) {
        status = take_bytes(pickle, raw, bytes);
        at = raw;
    }
    *out_number = at[0]; /* most are of one byte: opcodes */
    for (size_t i = 1; i < bytes; i++) {
        *out_number |= (uint64_t)at[i] << (8 * i);
    }
    return status;
}

/* ---- the stack ---- */

static dao_status_t push_slot(pickle_t *pickle, slot_t slot)
{
    if (pickle->stack_count == STACK_COUNT_MAX) {
        return wrong(pickle, "more than %d values wait to be put somewhere", STACK_COUNT_MAX);
    }
    slot_t *grown =
        dao_tool_grow(pickle->stack, &pickle->stack_capacity, pickle->stack_count, sizeof(*pickle->stack));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    pickle->stack = grown;
    grown[pickle->stack_count++] = slot;
    return DAO_OK;
}

static bool is_container(dao_value_t value)
{
    return value.type == DAO_VALUE_TYPE_LIST || value.type == DAO_VALUE_TYPE_DICT;
}

static dao_status_t push(pickle_t *pickle, dao_value_t value)
{
    return push_slot(pickle, (slot_t){.value = value, .is_open = is_container(value)});
}

static dao_status_t push_count(pickle_t *pickle, uint64_t count)
{
    return push(pickle, (dao_value_t){.type = DAO_VALUE_TYPE_COUNT, .payload = count});
}

/* Pushes a two's complement number of `bytes` bytes. */
static dao_status_t push_signed(pickle_t *pickle, uint64_t number, size_t bytes)
{
    uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    if ((number & sign) == 0) {
        return push_count(pickle, number);
    }
    uint64_t magnitude = (sign - (number & (sign - 1)));
    return push(pickle, (dao_value_t){.type = DAO_VALUE_TYPE_NEGATIVE, .payload = magnitude});
}

static dao_status_t set_mark(pickle_t *pickle)
{
    if (pickle->mark_count == STACK_COUNT_MAX) {
        return wrong(pickle, "more than %d marks are open", STACK_COUNT_MAX);
    }
    size_t *grown =
        dao_tool_grow(pickle->marks, &pickle->mark_capacity, pickle->mark_count, sizeof(*pickle->marks));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    pickle->marks = grown;
    grown[pickle->mark_count++] = pickle->stack_count;
    return DAO_OK;
}

/* Takes the latest mark: the values from *out_begin on lie above it. */
static dao_status_t take_mark(pickle_t *pickle, size_t *out_begin)
{
    if (pickle->mark_count == 0) {
        return wrong(pickle, "no mark is open");
    }
    *out_begin = pickle->marks[--pickle->mark_count];
    return DAO_OK;
}

/* Returns true if so many values lie above the latest mark. */
static bool has_values(const pickle_t *pickle, size_t count)
{
    size_t floor = pickle->mark_count > 0 ? pickle->marks[pickle->mark_count - 1] : 0;
    return pickle->stack_count - floor >= count;
}

static dao_status_t expect_values(const pickle_t *pickle, size_t count)
{
    return has_values(pickle, count) ? DAO_OK : wrong(pickle, "the stack has too few values");
}

/* ---- lists and dictionaries ---- */

/* Closes what is put somewhere; its memo leads to what it is from now on. */
static dao_status_t close_value(pickle_t *pickle, slot_t *slot)
{
    memo_t *memo = slot->memo > 0 ? &pickle->memo[slot->memo - 1] : NULL;
    if (!slot->is_open || (memo != NULL && memo->is_said)) {
        return DAO_OK;
    }
    slot->is_open = false;
    dao_status_t status = dao_value_complete(pickle->store, &slot->value);
    if (memo != NULL) {
        memo->payload = (uint32_t)slot->value.payload;
    }
    return status;
}

/* Hands an item over; its memo leads nowhere if the reader has taken it, and nobody else has it. */
static dao_status_t put_in_list(pickle_t *pickle, dao_value_t list, slot_t *item)
{
    bool was_open = item->is_open;
    dao_status_t status = close_value(pickle, item);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_value_hand_over(pickle->store, list, &item->value, was_open && !item->is_open);
    if (item->memo > 0) {
        pickle->memo[item->memo - 1].type = (uint8_t)item->value.type;
    }
    return status;
}

/* Finds what values are to be put in: it lies below them, and is still open. */
static dao_status_t find_container(const pickle_t *pickle, size_t begin, dao_value_type_t type,
                                   dao_value_t *out_container)
{
    if (begin == 0 || pickle->stack[begin - 1].value.type != type) {
        return type == DAO_VALUE_TYPE_LIST ? wrong(pickle, "there is no list to append to")
                                           : wrong(pickle, "there is no dictionary to put items in");
    }
    *out_container = pickle->stack[begin - 1].value;
    return pickle->stack[begin - 1].is_open
               ? DAO_OK
               : wrong(pickle, "what was put somewhere is changed: no memory snapshot does so");
}

/* Puts the values from `begin` on into the list below them. */
static dao_status_t append_from(pickle_t *pickle, size_t begin)
{
    dao_value_t list = {0};
    dao_status_t status = find_container(pickle, begin, DAO_VALUE_TYPE_LIST, &list);
    for (size_t i = begin; i < pickle->stack_count && status == DAO_OK; i++) {
        status = put_in_list(pickle, list, &pickle->stack[i]);
    }
    pickle->stack_count = begin;
    return status;
}

/* Puts the pairs from `begin` on into the dictionary below them. */
static dao_status_t set_from(pickle_t *pickle, size_t begin)
{
    dao_value_t dict = {0};
    dao_status_t status = find_container(pickle, begin, DAO_VALUE_TYPE_DICT, &dict);
    if (status == DAO_OK && (pickle->stack_count - begin) % 2 != 0) {
        return wrong(pickle, "a key has no item");
    }
    for (size_t i = begin; i < pickle->stack_count && status == DAO_OK; i += 2) {
        status = close_value(pickle, &pickle->stack[i]);
        if (status == DAO_OK) {
            status = close_value(pickle, &pickle->stack[i + 1]);
        }
        if (status == DAO_OK) {
            status = dao_value_set(pickle->store, dict, pickle->stack[i].value, pickle->stack[i + 1].value);
        }
    }
    pickle->stack_count = begin;
    return status;
}

/* Replaces the values from `begin` on by a list of them; tuples are lists here. */
static dao_status_t make_list(pickle_t *pickle, size_t begin)
{
    dao_value_t list;
    dao_status_t status = dao_value_make_list(pickle->store, &list);
    for (size_t i = begin; i < pickle->stack_count && status == DAO_OK; i++) {
        status = put_in_list(pickle, list, &pickle->stack[i]);
    }
    pickle->stack_count = begin;
    return status == DAO_OK ? push(pickle, list) : status;
}

static dao_status_t make_tuple(pickle_t *pickle, size_t count)
{
    dao_status_t status = expect_values(pickle, count);
    return status == DAO_OK ? make_list(pickle, pickle->stack_count - count) : status;
}

static dao_status_t push_dict(pickle_t *pickle)
{
    dao_value_t dict;
    dao_status_t status = dao_value_make_dict(pickle->store, &dict);
    return status == DAO_OK ? push(pickle, dict) : status;
}

/* DICT: makes a dictionary of the pairs above the mark. */
static dao_status_t make_dict(pickle_t *pickle)
{
    size_t begin = 0;
    slot_t dict;
    dao_status_t status = take_mark(pickle, &begin);
    if (status == DAO_OK) {
        status = push_dict(pickle);
    }
    if (status != DAO_OK) {
        return status;
    }
    dict = pickle->stack[pickle->stack_count - 1]; /* it goes below its items */
    memmove(pickle->stack + begin + 1, pickle->stack + begin,
            (pickle->stack_count - 1 - begin) * sizeof(*pickle->stack));
    pickle->stack[begin] = dict;
    return set_from(pickle, begin + 1);
}

/* Does one of the opcodes that take what lies above the latest mark. */
static dao_status_t close_mark(pickle_t *pickle, opcode_t opcode)
{
    size_t begin = 0;
    dao_status_t status = take_mark(pickle, &begin);
    if (status != DAO_OK) {
        return status;
    }
    switch (opcode) {
    case OP_APPENDS:
        return append_from(pickle, begin);
    case OP_SETITEMS:
        return set_from(pickle, begin);
    default:
        return make_list(pickle, begin);
    }
}

/* ---- the memo ---- */

static dao_status_t memo_put(pickle_t *pickle, uint64_t number)
{
    if (!has_values(pickle, 1)) {
        return wrong(pickle, "there is no value to remember");
    }
    if (number < pickle->memo_count) {
        return wrong(pickle, "memo %" PRIu64 " has a value already", number);
    }
    if (number > pickle->memo_count) {
        return wrong(pickle, "memo %" PRIu64 " comes before %zu", number, pickle->memo_count);
    }
    slot_t *slot = &pickle->stack[pickle->stack_count - 1];
    if (number >= UINT32_MAX || slot->value.payload > UINT32_MAX) {
        return wrong(pickle, "the memo holds no numbers above %u, and no more values", UINT32_MAX);
    }
    if (slot->memo != 0) {
        return wrong(pickle, "memo %" PRIu64 " and %" PRIu32 " are one value", number, slot->memo - 1);
    }
    memo_t *grown =
        dao_tool_grow(pickle->memo, &pickle->memo_capacity, pickle->memo_count, sizeof(*pickle->memo));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    pickle->memo = grown;
    grown[pickle->memo_count++] =
        (memo_t){.payload = (uint32_t)slot->value.payload, .type = (uint8_t)slot->value.type};
    slot->memo = (uint32_t)pickle->memo_count;
    return DAO_OK;
}

static dao_status_t memo_get(pickle_t *pickle, uint64_t number)
{
    if (number >= pickle->memo_count) {
        return wrong(pickle, "memo %" PRIu64 " holds nothing", number);
    }
    memo_t *memo = &pickle->memo[number];
    if (memo->type == DAO_VALUE_TYPE_TAKEN) {
        pickle->store->misses_taken = true;
        return wrong(pickle, "memo %" PRIu64 " holds what was taken", number);
    }
    memo->is_said = true;
    dao_value_t value = {.type = (dao_value_type_t)memo->type, .payload = memo->payload};
    return push_slot(pickle, (slot_t){.value = value});
}

/* Does an opcode of the memo, whose number has so many bytes. */
static dao_status_t use_memo(pickle_t *pickle, opcode_t opcode, size_t bytes)
{
    uint64_t number = 0;
    dao_status_t status = take_number(pickle, bytes, &number);
    if (status != DAO_OK) {
        return status;
    }
    return opcode == OP_BINGET || opcode == OP_LONG_BINGET ? memo_get(pickle, number)
                                                           : memo_put(pickle, number);
}

/* ---- numbers and texts ---- */

static dao_status_t read_number(pickle_t *pickle, size_t bytes, bool is_signed)
{
    uint64_t number = 0;
    dao_status_t status = take_number(pickle, bytes, &number);
    if (status != DAO_OK) {
        return status;
    }
    return is_signed ? push_signed(pickle, number, bytes) : push_count(pickle, number);
}

/* LONG1: a number of as many bytes as the next one says; of nine if it is 2^63 or more. */
static dao_status_t read_long(pickle_t *pickle)
{
    uint64_t length = 0, number = 0, sign = 0;
    dao_status_t status = take_number(pickle, 1, &length);
    if (status == DAO_OK && length > 9) {
        return wrong(pickle, "a number of %" PRIu64 " bytes", length);
    }
    if (status == DAO_OK && length == 0) {
        return push_count(pickle, 0);
    }
    if (status == DAO_OK) {
        status = take_number(pickle, length > 8 ? 8 : (size_t)length, &number);
    }
    if (status == DAO_OK && length == 9) {
        status = take_number(pickle, 1, &sign);
        return status != DAO_OK ? status
               : sign == 0      ? push_count(pickle, number)
                                : wrong(pickle, "a number that does not fit 64 bits");
    }
    return status == DAO_OK ? push_signed(pickle, number, (size_t)length) : status;
}

static dao_status_t read_text(pickle_t *pickle, size_t length_bytes)
{
    uint64_t length = 0;
    dao_value_t text;
    dao_status_t status = take_number(pickle, length_bytes, &length);
    if (status == DAO_OK && length > TEXT_BYTES_MAX) {
        return wrong(pickle, "a text of %" PRIu64 " bytes; %d are allowed", length, TEXT_BYTES_MAX);
    }
    if (status == DAO_OK) {
        status = take_bytes(pickle, pickle->text, (size_t)length);
    }
    if (status == DAO_OK) {
        status = dao_value_make_text(pickle->store, pickle->text, (size_t)length, &text);
    }
    return status == DAO_OK ? push(pickle, text) : status;
}

/* Steps over the bytes of an opcode that says nothing here, and pushes a value unless it is none. */
static dao_status_t step_over(pickle_t *pickle, size_t bytes, dao_value_type_t type)
{
    uint64_t ignored = 0;
    dao_status_t status = take_number(pickle, bytes, &ignored);
    return status == DAO_OK && type != DAO_VALUE_TYPE_NONE ? push(pickle, (dao_value_t){.type = type})
                                                           : status;
}

static dao_status_t read_protocol(pickle_t *pickle)
{
    uint64_t protocol = 0;
    dao_status_t status = take_number(pickle, 1, &protocol);
    return status == DAO_OK && (protocol < 2 || protocol > 5)
               ? wrong(pickle, "protocol %" PRIu64 " is none of 2 to 5", protocol)
               : status;
}

/* ---- opcodes ---- */

/* What a file would call others by; the names are those of pickletools.py. */
static dao_status_t refuse(const pickle_t *pickle, int opcode)
{
    static const struct {
        int opcode;
        const char *name;
    } names[] = {
        {'c', "GLOBAL"},       {'R', "REDUCE"},          {'b', "BUILD"},      {'i', "INST"},
        {'o', "OBJ"},          {0x81, "NEWOBJ"},         {0x92, "NEWOBJ_EX"}, {0x93, "STACK_GLOBAL"},
        {0x82, "EXT1"},        {0x83, "EXT2"},           {0x84, "EXT4"},      {'P', "PERSID"},
        {'Q', "BINPERSID"},    {0x96, "BYTEARRAY8"},     {'B', "BINBYTES"},   {'C', "SHORT_BINBYTES"},
        {0x8d, "BINUNICODE8"}, {0x8e, "BINBYTES8"},      {0x8b, "LONG4"},     {0x90, "ADDITEMS"},
        {0x97, "NEXT_BUFFER"}, {'U', "SHORT_BINSTRING"}, {'T', "BINSTRING"},  {'I', "INT"},
        {'L', "LONG"},         {'S', "STRING"},          {'V', "UNICODE"},    {'0', "POP"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].opcode == opcode) {
            return wrong(pickle, "the opcode %s is refused: a memory snapshot has data alone", names[i].name);
        }
    }
    return wrong(pickle, "0x%02x is no opcode that a memory snapshot has", (unsigned int)opcode);
}

static dao_status_t push_value(pickle_t *pickle, opcode_t opcode)
{
    switch (opcode) {
    case OP_NONE:
        return push(pickle, (dao_value_t){.type = DAO_VALUE_TYPE_NONE});
    case OP_NEWTRUE:
    case OP_NEWFALSE:
        return push(pickle,
                    (dao_value_t){.type = DAO_VALUE_TYPE_FLAG, .payload = opcode == OP_NEWTRUE ? 1 : 0});
    case OP_BININT1:
        return read_number(pickle, 1, false);
    case OP_BININT2:
        return read_number(pickle, 2, false);
    case OP_BININT:
        return read_number(pickle, 4, true);
    case OP_LONG1:
        return read_long(pickle);
    case OP_BINFLOAT:
        return step_over(pickle, 8, DAO_VALUE_TYPE_REAL);
    case OP_SHORT_BINUNICODE:
        return read_text(pickle, 1);
    default:
        return read_text(pickle, 4);
    }
}

static dao_status_t do_containers(pickle_t *pickle, opcode_t opcode)
{
    switch (opcode) {
    case OP_EMPTY_LIST:
    case OP_EMPTY_TUPLE:
        return make_list(pickle, pickle->stack_count);
    case OP_EMPTY_DICT:
        return push_dict(pickle);
    case OP_MARK:
        return set_mark(pickle);
    case OP_TUPLE1:
        return make_tuple(pickle, 1);
    case OP_TUPLE2:
        return make_tuple(pickle, 2);
    case OP_TUPLE3:
        return make_tuple(pickle, 3);
    case OP_APPEND:
        return has_values(pickle, 2) ? append_from(pickle, pickle->stack_count - 1)
                                     : expect_values(pickle, 2);
    case OP_SETITEM:
        return has_values(pickle, 3) ? set_from(pickle, pickle->stack_count - 2) : expect_values(pickle, 3);
    case OP_DICT:
        return make_dict(pickle);
    default:
        return close_mark(pickle, opcode);
    }
}

static dao_status_t do_opcode(pickle_t *pickle, int opcode)
{
    switch (opcode) {
    case OP_PROTO:
        return read_protocol(pickle);
    case OP_FRAME:
        return step_over(pickle, 8, DAO_VALUE_TYPE_NONE);
    case OP_STOP:
        pickle->is_ended = true;
        return pickle->stack_count == 1 && pickle->mark_count == 0
                   ? DAO_OK
                   : wrong(pickle, "the file ends with %zu values", pickle->stack_count);
    case OP_MEMOIZE:
        return memo_put(pickle, pickle->memo_count);
    case OP_BINGET:
    case OP_BINPUT:
        return use_memo(pickle, (opcode_t)opcode, 1);
    case OP_LONG_BINGET:
    case OP_LONG_BINPUT:
        return use_memo(pickle, (opcode_t)opcode, 4);
    case OP_NONE:
    case OP_NEWTRUE:
    case OP_NEWFALSE:
    case OP_BININT1:
    case OP_BININT2:
    case OP_BININT:
    case OP_LONG1:
    case OP_BINFLOAT:
    case OP_SHORT_BINUNICODE:
    case OP_BINUNICODE:
        return push_value(pickle, (opcode_t)opcode);
    case OP_EMPTY_LIST:
    case OP_EMPTY_TUPLE:
    case OP_EMPTY_DICT:
    case OP_MARK:
    case OP_TUPLE1:
    case OP_TUPLE2:
    case OP_TUPLE3:
    case OP_APPEND:
    case OP_APPENDS:
    case OP_SETITEM:
    case OP_SETITEMS:
    case OP_LIST:
    case OP_TUPLE:
    case OP_DICT:
        return do_containers(pickle, (opcode_t)opcode);
    default:
        return refuse(pickle, opcode);
    }
}

static dao_status_t run(pickle_t *pickle)
{
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && !pickle->is_ended) {
        uint64_t opcode = 0;
        pickle->offset = dao_text_source_offset(&pickle->source);
        status = take_number(pickle, 1, &opcode);
        if (status == DAO_OK) {
            status = do_opcode(pickle, (int)opcode);
        }
    }
    int byte = 0;
    if (status == DAO_OK) {
        status = dao_text_source_peek(&pickle->source, &byte);
    }
    return status == DAO_OK && byte != DAO_TEXT_SOURCE_END ? wrong(pickle, "there is more behind the end")
                                                           : status;
}

dao_status_t dao_pickle_read(const char *path, dao_value_store_t *store, dao_value_t *out_value)
{
    pickle_t pickle = {.store = store};
    dao_status_t status = dao_text_source_open(&pickle.source, path);
    if (status != DAO_OK) {
        return status;
    }
    pickle.text = dao_host_calloc(TEXT_BYTES_MAX, 1);
    status = pickle.text != NULL ? run(&pickle) : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a text");
    if (status == DAO_OK) {
        *out_value = pickle.stack[0].value;
    }
    dao_host_free(pickle.text);
    dao_host_free(pickle.stack);
    dao_host_free(pickle.marks);
    dao_host_free(pickle.memo);
    dao_text_source_close(&pickle.source);
    return status;
}

dao_status_t dao_pickle_is(const char *path, bool *out_is)
{
    dao_text_source_t source;
    int byte = 0;
    dao_status_t status = dao_text_source_open(&source, path);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_text_source_peek(&source, &byte);
    dao_text_source_close(&source);
    *out_is = byte == OP_PROTO;
    return status;
}
