/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of plan files, which libdao reads itself. The first byte of an input says what the others
   are: a file; the same with a correct checksum behind it; or entries, with a correct head and checksum, so
   that they are parsed.

   What is read is valid, and is written and read back as the same file. What is refused has a message. */
#include "base/report/error.h"
#include "planning/steps/script.h"
#include "tests/fuzz/fuzz_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 128, ENTRY_COUNT_MAX = 40, SUM_BYTES = 64 };

static void text_add_line(text_t *text, const char *line)
{
    FUZZ_REQUIRE(text_add(line, strlen(line), text) == DAO_OK);
}

/* FNV-1a, as the head of planning/steps/script_file.c says. */
static void text_add_sum(text_t *text)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    char line[LINE_BYTES];
    for (size_t i = 0; i < text->length; i++) {
        sum = (sum ^ (unsigned char)text->bytes[i]) * UINT64_C(0x100000001b3);
    }
    (void)snprintf(line, sizeof(line), "sum %016" PRIx64 "\n", sum);
    text_add_line(text, line);
}

static void read_plan(const char *bytes, size_t length)
{
    dao_script_t *script;
    dao_script_text_t text = {.next = bytes, .end = bytes + length, .line = 1};
    if (dao_script_read(&text, &script) != DAO_OK) {
        FUZZ_REQUIRE(strlen(dao_last_message()) > 0);
        return;
    }
    static text_t first, second;
    first.length = second.length = 0;
    FUZZ_REQUIRE(dao_script_is_valid(script));
    FUZZ_REQUIRE(dao_script_write(script, text_add, &first) == DAO_OK);
    dao_script_destroy(script);
    text = (dao_script_text_t){.next = first.bytes, .end = first.bytes + first.length, .line = 1};
    FUZZ_REQUIRE(dao_script_read(&text, &script) == DAO_OK);
    FUZZ_REQUIRE(text.next == text.end);
    FUZZ_REQUIRE(dao_script_write(script, text_add, &second) == DAO_OK);
    FUZZ_REQUIRE(first.length == second.length && memcmp(first.bytes, second.bytes, first.length) == 0);
    dao_script_destroy(script);
}

/* A number of a file: small ones mostly, "-", or one that is out of every range. */
static void number_of(fuzz_input_t *input, uint64_t scale, char out_text[24])
{
    uint32_t byte = fuzz_byte(input);
    if (byte >= 250) {
        (void)snprintf(out_text, 24, "%s",
                       byte == 255   ? "-"
                       : byte == 254 ? "18446744073709551615"
                                     : "4294967295");
    } else {
        (void)snprintf(out_text, 24, "%" PRIu64, byte / 8 * scale);
    }
}

/* An entry that a plan could have; bytes change one number or another. Gives where it ends in the arena, as
   far as it says. */
static uint64_t add_entry(text_t *text, fuzz_input_t *input, uint32_t index)
{
    enum { COLUMN_COUNT = 6 };
    char columns[COLUMN_COUNT][24], line[256];
    uint32_t life = 1 + fuzz_byte(input) % 4;
    const uint64_t usual[COLUMN_COUNT] = {index * UINT64_C(256), 256, 0, index + life, 0, 8};
    static const uint64_t scales[COLUMN_COUNT] = {256, 100, 1, 1, 1, 1};
    uint32_t changed = fuzz_byte(input);
    for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
        if (changed % 64 == i || changed / 16 == i + 8) {
            number_of(input, scales[i], columns[i]);
        } else {
            (void)snprintf(columns[i], sizeof(columns[i]), "%" PRIu64, usual[i]);
        }
    }
    (void)snprintf(line, sizeof(line), "%s %s %s %s %s %s\n", columns[0], columns[1], columns[2], columns[3],
                   columns[4], columns[5]);
    text_add_line(text, line);
    uint64_t size_bytes = strtoull(columns[1], NULL, 10);
    bool is_placed = strcmp(columns[0], "-") != 0 && size_bytes < DAO_PLAN_SIZE_MAX;
    return is_placed ? strtoull(columns[0], NULL, 10) + (size_bytes + 255) / 256 * 256 : 0;
}

static void run_entries(fuzz_input_t *input)
{
    static text_t entries, text;
    char line[LINE_BYTES];
    uint32_t count = 1 + fuzz_byte(input) % ENTRY_COUNT_MAX;
    uint64_t arena_bytes = 0;
    entries.length = text.length = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t end_bytes = add_entry(&entries, input, i);
        arena_bytes = end_bytes > arena_bytes ? end_bytes : arena_bytes;
    }
    (void)snprintf(line, sizeof(line), "dao-plan 1\nentries %" PRIu32 " arena %" PRIu64 "\n", count,
                   arena_bytes);
    text_add_line(&text, line);
    FUZZ_REQUIRE(text_add(entries.bytes, entries.length, &text) == DAO_OK);
    text_add_sum(&text);
    read_plan(text.bytes, text.length);
}

/* The bytes of an input as far as there is room for a checksum behind them. */
static void run_summed(const fuzz_input_t *input)
{
    static text_t text;
    size_t most = TEXT_BYTES - SUM_BYTES;
    text.length = 0;
    FUZZ_REQUIRE(text_add((const char *)input->next, input->left < most ? input->left : most, &text) ==
                 DAO_OK);
    text_add_sum(&text);
    read_plan(text.bytes, text.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    fuzz_input_t input = {.next = data, .left = size_bytes};
    uint32_t part = fuzz_byte(&input) % 3;
    if (part == 0) {
        read_plan((const char *)input.next, input.left);
    } else if (part == 1) {
        run_summed(&input);
    } else {
        run_entries(&input);
    }
    return 0;
}
