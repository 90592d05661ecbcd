/* SPDX-License-Identifier: Apache-2.0 */
/* One device with one segment, which all buffers lie in:

       segments        address, blocks that fill it: what is alive at the end, and holes
       device_traces   segment_alloc, then alloc | free_requested, free_completed

   What the viewer asks for, and why (its code is torch/utils/viz/MemoryViz.js of PyTorch): every list of a
   device is there, lists come in batches, all entries have a `category` or none, and if they have, one of
   them is "unknown": the segment's. Sizes of entries are those that were asked for, of blocks rounded. */
#include "tools/write/writers.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "base/report/pickle_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where the segment lies: as PyTorch's do, and below 2^53, which the viewer's numbers hold. */
#define BASE_ADDRESS UINT64_C(0x7f0000000000)

/* A segment is a multiple of this. */
#define SEGMENT_BYTES (UINT64_C(2) << 20)

/* Texts that recur. */
#define TEXT_LIST(X)                                                                                         \
    X(ACTION, "action")                                                                                      \
    X(ADDR, "addr")                                                                                          \
    X(SIZE, "size")                                                                                          \
    X(STREAM, "stream")                                                                                      \
    X(TIME_US, "time_us")                                                                                    \
    X(FRAMES, "frames")                                                                                      \
    X(CATEGORY, "category")                                                                                  \
    X(UNKNOWN, "unknown")                                                                                    \
    X(NAME, "name")                                                                                          \
    X(FILENAME, "filename")                                                                                  \
    X(LINE, "line")                                                                                          \
    X(DAO, "dao")                                                                                            \
    X(ALLOC, "alloc")                                                                                        \
    X(FREE_REQUESTED, "free_requested")                                                                      \
    X(FREE_COMPLETED, "free_completed")                                                                      \
    X(ADDRESS, "address")                                                                                    \
    X(REQUESTED_SIZE, "requested_size")                                                                      \
    X(STATE, "state")                                                                                        \
    X(ACTIVE, "active_allocated")                                                                            \
    X(INACTIVE, "inactive")

typedef enum text {
#define TEXT_NUMBER(symbol, text) TEXT_##symbol,
    TEXT_LIST(TEXT_NUMBER)
#undef TEXT_NUMBER
        TEXT_COUNT
} text_t;

static const char *const texts[TEXT_COUNT] = {
#define TEXT_TEXT(symbol, text) text,
    TEXT_LIST(TEXT_TEXT)
#undef TEXT_TEXT
};

typedef struct snapshot_writer {
    const dao_history_t *history;
    dao_pickle_writer_t pickle;
    dao_pickle_memo_t memos[TEXT_COUNT];
    dao_pickle_memo_t no_frames;
    dao_pickle_memo_t *frames;         /* of each buffer, as its free is by the same ones */
    dao_pickle_memo_t *operator_memos; /* of their names */
    uint64_t segment_bytes;
} snapshot_writer_t;

static dao_status_t write_piece(const char *bytes, size_t count, void *user)
{
    (void)fwrite(bytes, 1, count, user); /* dao_out_file_close() sees a failure, and why */
    return DAO_OK;
}

static void put(snapshot_writer_t *writer, text_t text)
{
    dao_pickle_text(&writer->pickle, texts[text], &writer->memos[text]);
}

static void put_count(snapshot_writer_t *writer, text_t key, uint64_t count)
{
    put(writer, key);
    dao_pickle_count(&writer->pickle, count);
}

static void put_text(snapshot_writer_t *writer, text_t key, text_t text)
{
    put(writer, key);
    put(writer, text);
}

/* ---- entries ---- */

static void put_frame(snapshot_writer_t *writer, const char *name, dao_pickle_memo_t *memo, uint32_t *count)
{
    dao_pickle_writer_t *pickle = &writer->pickle;
    if (*name == '\0') {
        return;
    }
    dao_pickle_list_item(pickle, count);
    dao_pickle_dict_begin(pickle);
    put(writer, TEXT_NAME);
    dao_pickle_text(pickle, name, memo);
    put_text(writer, TEXT_FILENAME, TEXT_DAO);
    put_count(writer, TEXT_LINE, 0);
    dao_pickle_dict_end(pickle);
}

/* Writes the frames of a buffer: what it is called, what it is for, and the operator that made it. */
static void put_frames(snapshot_writer_t *writer, const dao_history_event_t *event)
{
    const dao_history_t *history = writer->history;
    const dao_history_buffer_t *buffer = &history->buffers[event->buffer];
    dao_pickle_memo_t *memo = &writer->frames[event->buffer];
    uint32_t count = 0;
    put(writer, TEXT_FRAMES);
    if (buffer->id == NULL && event->operator_index == DAO_TRACE_NONE) {
        dao_pickle_empty_list(&writer->pickle, &writer->no_frames);
        return;
    }
    if (*memo != 0) {
        dao_pickle_again(&writer->pickle, *memo);
        return;
    }
    dao_pickle_list_begin(&writer->pickle);
    put_frame(writer, buffer->id != NULL ? buffer->id : "", NULL, &count);
    put_frame(writer, buffer->tag, NULL, &count);
    if (event->operator_index != DAO_TRACE_NONE && event->is_alloc) {
        put_frame(writer, dao_trace_operator_name(history->trace, event->operator_index),
                  &writer->operator_memos[event->operator_index], &count);
    }
    dao_pickle_list_end(&writer->pickle);
    dao_pickle_note(&writer->pickle, memo);
}

static void put_entry(snapshot_writer_t *writer, const dao_history_event_t *event, text_t action,
                      uint32_t *count)
{
    const dao_history_buffer_t *buffer = &writer->history->buffers[event->buffer];
    dao_pickle_list_item(&writer->pickle, count);
    dao_pickle_dict_begin(&writer->pickle);
    put_text(writer, TEXT_ACTION, action);
    put_count(writer, TEXT_ADDR, BASE_ADDRESS + buffer->offset_bytes);
    put_count(writer, TEXT_SIZE, buffer->size_bytes);
    put_count(writer, TEXT_STREAM, 0);
    put_count(writer, TEXT_TIME_US, event->time_ns / 1000);
    put_frames(writer, event);
    if (writer->history->has_tags) {
        put(writer, TEXT_CATEGORY);
        dao_pickle_text(&writer->pickle, *buffer->tag != '\0' ? buffer->tag : texts[TEXT_UNKNOWN], NULL);
    }
    dao_pickle_dict_end(&writer->pickle);
}

static void put_segment_entry(snapshot_writer_t *writer, uint32_t *count)
{
    dao_pickle_writer_t *pickle = &writer->pickle;
    dao_pickle_list_item(pickle, count);
    dao_pickle_dict_begin(pickle);
    put(writer, TEXT_ACTION);
    dao_pickle_text(pickle, "segment_alloc", NULL);
    put_count(writer, TEXT_ADDR, BASE_ADDRESS);
    put_count(writer, TEXT_SIZE, writer->segment_bytes);
    put_count(writer, TEXT_STREAM, 0);
    put_count(writer, TEXT_TIME_US, 0);
    put(writer, TEXT_FRAMES);
    dao_pickle_empty_list(pickle, &writer->no_frames);
    if (writer->history->has_tags) {
        put_text(writer, TEXT_CATEGORY, TEXT_UNKNOWN);
    }
    dao_pickle_dict_end(pickle);
}

static void put_traces(snapshot_writer_t *writer)
{
    const dao_history_t *history = writer->history;
    uint32_t device_count = 0, count = 0;
    dao_pickle_list_begin(&writer->pickle);
    dao_pickle_list_item(&writer->pickle, &device_count);
    dao_pickle_list_begin(&writer->pickle);
    put_segment_entry(writer, &count);
    for (size_t i = 0; i < history->event_count; i++) {
        const dao_history_event_t *event = &history->events[i];
        if (event->is_alloc) {
            put_entry(writer, event, TEXT_ALLOC, &count);
        } else {
            put_entry(writer, event, TEXT_FREE_REQUESTED, &count);
            put_entry(writer, event, TEXT_FREE_COMPLETED, &count);
        }
    }
    dao_pickle_list_end(&writer->pickle);
    dao_pickle_list_end(&writer->pickle);
}

/* ---- the segment ---- */

static int compare_offsets(const void *left, const void *right)
{
    const dao_history_buffer_t *a = *(const dao_history_buffer_t *const *)left;
    const dao_history_buffer_t *b = *(const dao_history_buffer_t *const *)right;
    return a->offset_bytes < b->offset_bytes ? -1 : a->offset_bytes > b->offset_bytes;
}

static void put_block(snapshot_writer_t *writer, uint64_t offset_bytes, uint64_t size_bytes,
                      const dao_history_buffer_t *buffer, uint32_t *count)
{
    if (size_bytes == 0) {
        return;
    }
    dao_pickle_list_item(&writer->pickle, count);
    dao_pickle_dict_begin(&writer->pickle);
    put_count(writer, TEXT_ADDRESS, BASE_ADDRESS + offset_bytes);
    put_count(writer, TEXT_SIZE, size_bytes);
    put_count(writer, TEXT_REQUESTED_SIZE, buffer != NULL ? buffer->size_bytes : 0);
    put_text(writer, TEXT_STATE, buffer != NULL ? TEXT_ACTIVE : TEXT_INACTIVE);
    put(writer, TEXT_FRAMES);
    dao_pickle_empty_list(&writer->pickle, &writer->no_frames);
    dao_pickle_dict_end(&writer->pickle);
}

/* `kept` are the buffers that stay, by their offsets. */
static void put_blocks(snapshot_writer_t *writer, const dao_history_buffer_t *const *kept, size_t kept_count)
{
    uint64_t offset_bytes = 0;
    uint32_t count = 0;
    dao_pickle_list_begin(&writer->pickle);
    for (size_t i = 0; i < kept_count; i++) {
        put_block(writer, offset_bytes, kept[i]->offset_bytes - offset_bytes, NULL, &count);
        put_block(writer, kept[i]->offset_bytes, dao_history_rounded(kept[i]), kept[i], &count);
        offset_bytes = kept[i]->offset_bytes + dao_history_rounded(kept[i]);
    }
    put_block(writer, offset_bytes, writer->segment_bytes - offset_bytes, NULL, &count);
    dao_pickle_list_end(&writer->pickle);
}

static void put_segment(snapshot_writer_t *writer, const dao_history_buffer_t *const *kept, size_t kept_count)
{
    dao_pickle_writer_t *pickle = &writer->pickle;
    uint64_t active_bytes = 0, requested_bytes = 0;
    for (size_t i = 0; i < kept_count; i++) {
        active_bytes += dao_history_rounded(kept[i]);
        requested_bytes += kept[i]->size_bytes;
    }
    dao_pickle_dict_begin(pickle);
    dao_pickle_text(pickle, "device", NULL);
    dao_pickle_count(pickle, 0);
    put_count(writer, TEXT_ADDRESS, BASE_ADDRESS);
    dao_pickle_text(pickle, "total_size", NULL);
    dao_pickle_count(pickle, writer->segment_bytes);
    dao_pickle_text(pickle, "allocated_size", NULL);
    dao_pickle_count(pickle, active_bytes);
    dao_pickle_text(pickle, "active_size", NULL);
    dao_pickle_count(pickle, active_bytes);
    put_count(writer, TEXT_REQUESTED_SIZE, requested_bytes);
    put_count(writer, TEXT_STREAM, 0);
    dao_pickle_text(pickle, "segment_type", NULL);
    dao_pickle_text(pickle, "large", NULL);
    dao_pickle_text(pickle, "blocks", NULL);
    put_blocks(writer, kept, kept_count);
    dao_pickle_dict_end(pickle);
}

/* Writes the list of segments: one, or none where there is nothing to hold. */
static dao_status_t put_segments(snapshot_writer_t *writer)
{
    const dao_history_t *history = writer->history;
    uint32_t count = 0;
    size_t kept_count = 0;
    const dao_history_buffer_t **kept = dao_host_calloc(history->buffer_count + 1, sizeof(void *));
    if (kept == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to write %zu buffers", history->buffer_count);
    }
    for (size_t i = 0; i < history->buffer_count; i++) {
        if (history->buffers[i].is_kept) {
            kept[kept_count++] = &history->buffers[i];
        }
    }
    qsort(kept, kept_count, sizeof(void *), compare_offsets);
    dao_pickle_list_begin(&writer->pickle);
    if (writer->segment_bytes > 0) {
        dao_pickle_list_item(&writer->pickle, &count);
        put_segment(writer, kept, kept_count);
    }
    dao_pickle_list_end(&writer->pickle);
    dao_host_free(kept);
    return DAO_OK;
}

dao_status_t dao_write_snapshot(FILE *file, const dao_history_t *history)
{
    size_t operator_count = history->trace != NULL ? history->trace->operator_count : 0;
    snapshot_writer_t writer = {.history = history,
                                .frames = dao_host_calloc(history->buffer_count + 1, sizeof(*writer.frames)),
                                .operator_memos =
                                    dao_host_calloc(operator_count + 1, sizeof(*writer.operator_memos)),
                                .segment_bytes = dao_round_up(history->span_bytes, SEGMENT_BYTES)};
    dao_status_t status =
        writer.frames != NULL && writer.operator_memos != NULL
            ? DAO_OK
            : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to write %zu buffers", history->buffer_count);
    if (status == DAO_OK) {
        dao_pickle_begin(&writer.pickle, write_piece, file);
        dao_pickle_dict_begin(&writer.pickle);
        dao_pickle_text(&writer.pickle, "segments", NULL);
        status = put_segments(&writer);
    }
    if (status == DAO_OK) {
        dao_pickle_text(&writer.pickle, "device_traces", NULL);
        put_traces(&writer);
        dao_pickle_dict_end(&writer.pickle);
        status = dao_pickle_end(&writer.pickle);
    }
    dao_host_free(writer.frames);
    dao_host_free(writer.operator_memos);
    return status;
}
