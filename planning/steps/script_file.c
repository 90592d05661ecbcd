/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts as text, one entry a line:

       dao-plan 1
       entries 3 arena 2048
       1024 1000 0 2 0 8          offset, size, key, end, thread slot, alignment as a power of two
       - 64 0 - 0 8               no place; not freed
       ...
       sum 9f86d081884c7d65       FNV-1a of all bytes from the first line to here; other scripts may follow

   A file is read as if an enemy had written it: every number is checked, and the offsets are checked to be a
   plan. */
#include "planning/steps/script.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEADER      "dao-plan 1\n"
#define LINE_BYTES  160
#define FNV_OFFSET  UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME   UINT64_C(0x100000001b3)
#define SHIFT_MAX   30u
#define COLUMN_NONE UINT64_MAX /* a column that is "-" */

static uint64_t sum_of(uint64_t sum, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        sum = (sum ^ (unsigned char)text[i]) * FNV_PRIME;
    }
    return sum;
}

/* ---- writing ---- */

typedef struct writer {
    dao_write_t write;
    void *user;
    uint64_t sum;
} writer_t;

static dao_status_t put(writer_t *writer, const char *line, int length)
{
    writer->sum = sum_of(writer->sum, line, (size_t)length);
    return writer->write(line, (size_t)length, writer->user);
}

/* Writes "-" for a column that has no value. */
static void format_column(char *text, size_t room, uint64_t value, bool has_value)
{
    if (has_value) {
        (void)snprintf(text, room, "%" PRIu64, value);
    } else {
        (void)snprintf(text, room, "-");
    }
}

static dao_status_t put_entry(writer_t *writer, const dao_script_entry_t *entry)
{
    char line[LINE_BYTES], offset[24], end[24];
    format_column(offset, sizeof(offset), entry->offset_bytes, dao_script_is_placed(entry));
    format_column(end, sizeof(end), entry->end, entry->end != DAO_LIFETIME_OPEN);
    int length =
        snprintf(line, sizeof(line), "%s %" PRIu64 " %" PRIu64 " %s %u %u\n", offset, entry->size_bytes,
                 entry->key, end, (unsigned)entry->slot, (unsigned)entry->alignment_shift);
    return put(writer, line, length);
}

dao_status_t dao_script_write(const dao_script_t *script, dao_write_t write, void *user)
{
    char line[LINE_BYTES];
    writer_t writer = {.write = write, .user = user, .sum = FNV_OFFSET};
    dao_status_t status = put(&writer, HEADER, (int)strlen(HEADER));
    if (status == DAO_OK) {
        status = put(&writer, line,
                     snprintf(line, sizeof(line), "entries %" PRIu32 " arena %" PRIu64 "\n", script->count,
                              script->arena_bytes));
    }
    for (uint32_t i = 0; i < script->count && status == DAO_OK; i++) {
        status = put_entry(&writer, &script->entries[i]);
    }
    if (status == DAO_OK) {
        status = put(&writer, line, snprintf(line, sizeof(line), "sum %016" PRIx64 "\n", writer.sum));
    }
    return status == DAO_OK ? DAO_OK : dao_error_refused("dao_step_plan_save", status);
}

/* ---- reading ---- */

typedef dao_script_text_t reader_t;

static dao_status_t wrong(const reader_t *reader, const char *what)
{
    return dao_error(DAO_ERR_PARSE, "line %" PRIu64 " of the plan: %s", reader->line, what);
}

/* Takes a word that has to be there. */
static dao_status_t take_word(reader_t *reader, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(reader->end - reader->next) < length || memcmp(reader->next, word, length) != 0) {
        char message[LINE_BYTES];
        size_t shown = length - (word[length - 1] == '\n');
        (void)snprintf(message, sizeof(message), "\"%.*s\" has to stand here", (int)shown, word);
        return wrong(reader, message);
    }
    reader->next += length;
    reader->line += word[length - 1] == '\n';
    return DAO_OK;
}

/* Takes a number of a base, at most `most`, and the character behind it. */
static dao_status_t take_number(reader_t *reader, unsigned base, uint64_t most, char behind,
                                uint64_t *out_value)
{
    uint64_t value = 0;
    const char *begin = reader->next;
    for (; reader->next < reader->end && *reader->next != behind; reader->next++) {
        char c = *reader->next;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : base;
        if (digit >= base) {
            return wrong(reader, "this is no number");
        }
        if (value > (most - digit) / base) {
            return wrong(reader, "the number is too large");
        }
        value = value * base + digit;
    }
    if (reader->next == begin || reader->next == reader->end) {
        return wrong(reader, "a number is missing");
    }
    reader->next++;
    reader->line += behind == '\n';
    *out_value = value;
    return DAO_OK;
}

/* The same, or "-". */
static dao_status_t take_column(reader_t *reader, uint64_t most, uint64_t *out_value)
{
    if (reader->end - reader->next >= 2 && reader->next[0] == '-' && reader->next[1] == ' ') {
        reader->next += 2;
        *out_value = COLUMN_NONE;
        return DAO_OK;
    }
    return take_number(reader, 10, most, ' ', out_value);
}

static dao_status_t take_entry(reader_t *reader, uint32_t index, dao_script_entry_t *entry)
{
    enum { OFFSET, SIZE, KEY, END, SLOT, SHIFT, COLUMN_COUNT };
    static const uint64_t most[COLUMN_COUNT] = {
        DAO_PLAN_SIZE_MAX,           DAO_PLAN_SIZE_MAX, UINT64_MAX, UINT64_C(2) * DAO_LIFETIME_COUNT_MAX,
        DAO_LIFETIME_SLOT_COUNT - 1, SHIFT_MAX};
    uint64_t columns[COLUMN_COUNT] = {0};
    reader_t at = *reader; /* messages name the line that was read */
    dao_status_t status = DAO_OK;
    for (unsigned i = 0; i < COLUMN_COUNT && status == DAO_OK; i++) {
        status = i == OFFSET || i == END
                     ? take_column(reader, most[i], &columns[i])
                     : take_number(reader, 10, most[i], i == SHIFT ? '\n' : ' ', &columns[i]);
    }
    if (status != DAO_OK) {
        return status;
    }
    *entry = (dao_script_entry_t){
        .offset_bytes = columns[OFFSET] == COLUMN_NONE ? DAO_PLAN_NOWHERE : columns[OFFSET],
        .size_bytes = columns[SIZE],
        .key = columns[KEY],
        .end = columns[END] == COLUMN_NONE ? DAO_LIFETIME_OPEN : (uint32_t)columns[END],
        .slot = (uint16_t)columns[SLOT],
        .alignment_shift = (uint8_t)columns[SHIFT]};
    return entry->size_bytes == 0 || entry->end <= index
               ? wrong(&at, "the size is 0, or the end is not behind the begin")
               : DAO_OK;
}

/* Reads the first two lines, and checks that so many entries can follow. */
static dao_status_t take_header(reader_t *reader, uint64_t *out_count, uint64_t *out_arena_bytes)
{
    dao_status_t status = take_word(reader, HEADER);
    if (status == DAO_OK) {
        status = take_word(reader, "entries ");
    }
    if (status == DAO_OK) {
        status = take_number(reader, 10, DAO_LIFETIME_COUNT_MAX, ' ', out_count);
    }
    if (status == DAO_OK) {
        status = take_word(reader, "arena ");
    }
    if (status == DAO_OK) {
        status = take_number(reader, 10, DAO_PLAN_TOTAL_MAX, '\n', out_arena_bytes);
    }
    if (status == DAO_OK && *out_count > (uint64_t)(reader->end - reader->next)) {
        status = wrong(reader, "there are fewer entries than the line before says");
    }
    return status;
}

static dao_status_t take_entries(reader_t *reader, dao_script_t *script)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < script->count && status == DAO_OK; i++) {
        status = take_entry(reader, i, &script->entries[i]);
    }
    return status;
}

static dao_status_t take_sum(reader_t *reader, const char *text)
{
    uint64_t expected = sum_of(FNV_OFFSET, text, (size_t)(reader->next - text)), found = 0;
    dao_status_t status = take_word(reader, "sum ");
    if (status == DAO_OK) {
        status = take_number(reader, 16, UINT64_MAX, '\n', &found);
    }
    if (status == DAO_OK && found != expected) {
        status = wrong(reader, "the sum is not that of the lines before: the plan was changed or damaged");
    }
    return status;
}

dao_status_t dao_script_read(dao_script_text_t *text, dao_script_t **out_script)
{
    const char *begin = text->next;
    dao_script_t *script = NULL;
    uint64_t count = 0, arena_bytes = 0;
    dao_status_t status = take_header(text, &count, &arena_bytes);
    if (status == DAO_OK) {
        status = dao_script_create((uint32_t)count, &script);
    }
    if (status == DAO_OK) {
        status = take_entries(text, script);
    }
    if (status == DAO_OK) {
        status = take_sum(text, begin);
    }
    if (status == DAO_OK) {
        status = dao_script_adopt(script);
    }
    if (status == DAO_OK && script->arena_bytes != arena_bytes) {
        status = dao_error(DAO_ERR_INVALID, "the plan needs %" PRIu64 " bytes, and says %" PRIu64,
                           script->arena_bytes, arena_bytes);
    }
    if (status == DAO_OK) {
        status = dao_script_index(script);
    }
    if (status != DAO_OK) {
        dao_script_destroy(script);
        return status;
    }
    *out_script = script;
    return DAO_OK;
}
