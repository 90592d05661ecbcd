/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a pickle of protocol 2, which Python reads and PyTorch's memory viewer too: whole numbers, texts,
   lists and dictionaries. Lists come in batches of at most 1000 items, as viewers have to take them. A text
   that recurs is written once and then named: its owner keeps a memo of it, 0 at first.

       begin   dict_begin ( text value ) ... dict_end   end

   The first answer that is not DAO_OK stops the writing; dao_pickle_end() returns it. */
#ifndef DAO_BASE_PICKLE_WRITER_H
#define DAO_BASE_PICKLE_WRITER_H

#include <dao/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DAO_PICKLE_PIECE_BYTES = 4096, DAO_PICKLE_BATCH_ITEMS = 1000 };

/* Takes the bytes, in pieces; the same as dao_write_t. */
typedef dao_status_t (*dao_pickle_write_t)(const char *bytes, size_t count, void *user);

typedef struct dao_pickle_writer {
    dao_pickle_write_t write;
    void *user;
    dao_status_t status;
    uint32_t memo_count;
    size_t used; /* of `piece` */
    char piece[DAO_PICKLE_PIECE_BYTES];
} dao_pickle_writer_t;

/* The number of a memo, plus 1; 0: there is none yet. */
typedef uint32_t dao_pickle_memo_t;

void dao_pickle_begin(dao_pickle_writer_t *pickle, dao_pickle_write_t write, void *user);
DAO_NODISCARD dao_status_t dao_pickle_end(dao_pickle_writer_t *pickle);

void dao_pickle_dict_begin(dao_pickle_writer_t *pickle);
void dao_pickle_dict_end(dao_pickle_writer_t *pickle);

/* Every item of a list is announced; `count` is the list's own, 0 at first. */
void dao_pickle_list_begin(dao_pickle_writer_t *pickle);
void dao_pickle_list_item(dao_pickle_writer_t *pickle, uint32_t *count);
void dao_pickle_list_end(dao_pickle_writer_t *pickle);

/* A text; a byte that is no UTF-8 is written as U+FFFD. `memo` NULL: it does not recur. */
void dao_pickle_text(dao_pickle_writer_t *pickle, const char *text, dao_pickle_memo_t *memo);
void dao_pickle_count(dao_pickle_writer_t *pickle, uint64_t count);
void dao_pickle_flag(dao_pickle_writer_t *pickle, bool flag);

/* An empty list, the same object whenever the memo is. */
void dao_pickle_empty_list(dao_pickle_writer_t *pickle, dao_pickle_memo_t *memo);

/* Notes what was written last as a memo, and writes what a memo is. */
void dao_pickle_note(dao_pickle_writer_t *pickle, dao_pickle_memo_t *memo);
void dao_pickle_again(dao_pickle_writer_t *pickle, dao_pickle_memo_t memo);

#endif
