/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and texts as a page carries them: numbers in bytes of seven bits, the lowest first, or in columns,
   all of it packed by zlib and written in base64. The first failure stays. */
#ifndef DAO_TOOLS_REPORT_PAGE_BYTES_H
#define DAO_TOOLS_REPORT_PAGE_BYTES_H

#include <dao/status.h>

#include <stdio.h>

typedef struct dao_page_bytes {
    unsigned char *bytes;
    size_t count, capacity;
    bool has_failed; /* no memory */
} dao_page_bytes_t;

void dao_page_bytes_finish(dao_page_bytes_t *page);

void dao_page_put_number(dao_page_bytes_t *page, uint64_t number);
/* The same with a sign: the lowest bit. */
void dao_page_put_signed(dao_page_bytes_t *page, int64_t number);
/* Many numbers: of how many bytes each is, then the lowest byte of all, then the next one of all. What is
   alike lies together, so that it packs well. */
void dao_page_put_column(dao_page_bytes_t *page, const uint64_t *numbers, size_t count);
void dao_page_put_text(dao_page_bytes_t *page, const char *text);
/* A text of JSON with its quotes. */
void dao_page_put_json(dao_page_bytes_t *page, const char *text);

/* Writes all of it into a file. DAO_ERR_NO_HOST_MEMORY, also for what could not be put. */
DAO_NODISCARD dao_status_t dao_page_bytes_write(FILE *file, const dao_page_bytes_t *page);

#endif
