/* SPDX-License-Identifier: Apache-2.0 */
/* The page itself: written by its process, read by others. */
#include "runtime/scoreboard/scoreboard.h"

#include "base/report/error.h"
#include "base/text/printable.h"
#include "base/threads/sync.h"

#include <dao/context.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A writer needs some microseconds for a round and rests a tenth of a second: whoever meets it so often reads
   a page that is written by something else. */
#define READ_COUNT_MAX 100

/* Words in front of the rows, and of a row. */
#define HEAD_WORD_COUNT (offsetof(dao_scores_t, rows) / sizeof(uint64_t))
#define ROW_WORD_COUNT  (sizeof(dao_score_row_t) / sizeof(uint64_t))

/* ---- writing ---- */

void dao_scoreboard_init(dao_scoreboard_t *page, int pid, uint64_t start_ns, const char *backend)
{
    dao_scoreboard_header_t header = {.version = DAO_SCOREBOARD_VERSION,
                                      .page_bytes = sizeof(*page),
                                      .place_bytes = sizeof(dao_score_place_t),
                                      .tag_bytes = sizeof(dao_tag_stats_t),
                                      .executor_bytes = sizeof(dao_executor_stats_t),
                                      .process_bytes = sizeof(dao_score_process_t),
                                      .pid = pid,
                                      .start_ns = start_ns};
    (void)snprintf(header.library, sizeof(header.library), "%s", dao_version());
    (void)snprintf(header.backend, sizeof(header.backend), "%s", backend);
    page->header = header;
    atomic_store_explicit(&page->header.magic, DAO_SCOREBOARD_MAGIC, memory_order_release);
}

dao_score_row_t *dao_scores_add(dao_scores_t *scores, dao_score_kind_t kind, dao_place_t place)
{
    if (scores->row_count == DAO_SCORE_ROW_COUNT) {
        scores->left_out_count++;
        return NULL;
    }
    dao_score_row_t *row = &scores->rows[scores->row_count++];
    *row = (dao_score_row_t){.kind = (uint32_t)kind, .place = place};
    return row;
}

static size_t word_count_of(uint64_t row_count)
{
    return HEAD_WORD_COUNT + (size_t)row_count * ROW_WORD_COUNT;
}

void dao_scoreboard_write(dao_scoreboard_t *page, const dao_scores_t *scores)
{
    DAO_ASSERT(scores->row_count <= DAO_SCORE_ROW_COUNT);
    uint64_t round = atomic_load_explicit(&page->round, memory_order_relaxed) + 1;
    _Atomic uint64_t *half = page->halves[round % 2];
    size_t word_count = word_count_of(scores->row_count);
    for (size_t i = 0; i < word_count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)scores + i * sizeof(word), sizeof(word));
        atomic_store_explicit(&half[i], word, memory_order_release);
    }
    atomic_store_explicit(&page->round, round, memory_order_release);
}

/* ---- reading ---- */

static dao_status_t refuse_unready(void)
{
    return dao_error(DAO_ERR_NOT_READY, "the process has not shown any figures yet");
}

static dao_status_t header_check(const dao_scoreboard_header_t *header, size_t page_bytes)
{
    if (header->magic == 0) {
        return refuse_unready();
    }
    if (header->magic != DAO_SCOREBOARD_MAGIC) {
        return dao_error(DAO_ERR_CORRUPT, "this is no page of libdao's figures");
    }
    if (header->version != DAO_SCOREBOARD_VERSION || header->page_bytes != sizeof(dao_scoreboard_t) ||
        header->place_bytes != sizeof(dao_score_place_t) || header->tag_bytes != sizeof(dao_tag_stats_t) ||
        header->executor_bytes != sizeof(dao_executor_stats_t) ||
        header->process_bytes != sizeof(dao_score_process_t)) {
        return dao_error(
            DAO_ERR_UNSUPPORTED,
            "the process has libdao %s, whose page of figures is of version %" PRIu32
            "; this is libdao %s, which reads version %u of its own: use the dao of that version",
            header->library, header->version, dao_version(), DAO_SCOREBOARD_VERSION);
    }
    return page_bytes >= sizeof(dao_scoreboard_t)
               ? DAO_OK
               : dao_error(DAO_ERR_CORRUPT, "a page of figures of %zu bytes is cut: it has %zu", page_bytes,
                           sizeof(dao_scoreboard_t));
}

/* Ends a text of another process within its room. */
static void text_check(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    dao_make_printable(text);
}

static bool place_is_valid(dao_place_t place)
{
    return (int)place.kind >= DAO_PLACE_KIND_CPU && (int)place.kind <= DAO_PLACE_KIND_DEVICE &&
           place.index >= 0 && place.index < DAO_DEVICE_COUNT_MAX;
}

static dao_status_t scores_check(dao_scores_t *scores)
{
    bool is_right = scores->row_count >= 1 && scores->rows[0].kind == DAO_SCORE_KIND_PROCESS;
    for (uint64_t i = 0; i < scores->row_count && is_right; i++) {
        dao_score_row_t *row = &scores->rows[i];
        is_right = row->kind >= DAO_SCORE_KIND_PROCESS && row->kind < DAO_SCORE_KIND_END &&
                   (i == 0) == (row->kind == DAO_SCORE_KIND_PROCESS) && place_is_valid(row->place);
        text_check(row->name, sizeof(row->name));
    }
    return is_right ? DAO_OK : dao_error(DAO_ERR_CORRUPT, "a page of figures holds rows that are none");
}

/* Copies the half of a round; at most as many rows as there is room for. */
static void half_copy(const _Atomic uint64_t *half, dao_scores_t *out_scores)
{
    size_t word_count = HEAD_WORD_COUNT;
    for (size_t i = 0; i < word_count; i++) {
        uint64_t word = atomic_load_explicit(&half[i], memory_order_acquire);
        memcpy((char *)out_scores + i * sizeof(word), &word, sizeof(word));
        if (i + 1 == HEAD_WORD_COUNT && out_scores->row_count <= DAO_SCORE_ROW_COUNT) {
            word_count = word_count_of(out_scores->row_count);
        }
    }
}

/* Copies until a copy is whole. */
static dao_status_t scores_copy(const dao_scoreboard_t *page, dao_scores_t *out_scores)
{
    for (int i = 0; i < READ_COUNT_MAX; i++) {
        uint64_t round = atomic_load_explicit(&page->round, memory_order_acquire);
        if (round == 0) {
            return refuse_unready();
        }
        half_copy(page->halves[round % 2], out_scores);
        if (atomic_load_explicit(&page->round, memory_order_acquire) == round) {
            return DAO_OK;
        }
        dao_thread_yield();
    }
    return dao_error(DAO_ERR_BUSY, "a page of figures changed while it was read, %d times", READ_COUNT_MAX);
}

dao_status_t dao_scoreboard_read(const void *page, size_t page_bytes, dao_scoreboard_header_t *out_header,
                                 dao_scores_t *out_scores)
{
    if (page_bytes < sizeof(*out_header)) {
        return dao_error(DAO_ERR_CORRUPT, "a page of figures of %zu bytes is cut", page_bytes);
    }
    const dao_scoreboard_header_t *header = page;
    uint64_t magic = atomic_load_explicit(&header->magic, memory_order_acquire);
    memcpy(out_header, page, sizeof(*out_header));
    out_header->magic = magic;
    text_check(out_header->library, sizeof(out_header->library));
    text_check(out_header->backend, sizeof(out_header->backend));
    dao_status_t status = header_check(out_header, page_bytes);
    if (status == DAO_OK) {
        status = scores_copy(page, out_scores);
    }
    if (status == DAO_OK && out_scores->row_count > DAO_SCORE_ROW_COUNT) {
        status = dao_error(DAO_ERR_CORRUPT, "a page of figures has %" PRIu64 " rows, of at most %u",
                           out_scores->row_count, DAO_SCORE_ROW_COUNT);
    }
    return status == DAO_OK ? scores_check(out_scores) : status;
}
