/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a target collects: what a plan is written as. */
#ifndef DAO_TESTS_FUZZ_FUZZ_TEXT_H
#define DAO_TESTS_FUZZ_FUZZ_TEXT_H

#include "tests/fuzz/fuzz.h"

#include <dao/status.h>

#include <string.h>

enum { TEXT_BYTES = 1 << 15 };

typedef struct text {
    char bytes[TEXT_BYTES];
    size_t length;
} text_t;

/* What a plan is written by: `user` is a text_t. */
static inline dao_status_t text_add(const char *bytes, size_t length, void *user)
{
    text_t *text = user;
    FUZZ_REQUIRE(length <= sizeof(text->bytes) - text->length);
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    return DAO_OK;
}

#endif
