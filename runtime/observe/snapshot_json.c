/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot as JSON, with the words of torch.cuda.memory._snapshot(), a block and an event a line. What it
   tells is what the pickle tells: a tag is the category of an event and the one frame of what it is for. */
#include "runtime/observe/snapshot.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/report/format.h"
#include "base/text/json_text.h"

#include <dao/tag.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    PIECE_BYTES = 512, /* of the text that is handed on at once */
    NAME_BYTES = DAO_JSON_PIECE_BYTES * DAO_TAG_NAME_BYTES
};

/* Where the text goes, and the first answer that was not DAO_OK. */
typedef struct json_writer {
    dao_write_t write;
    void *user;
    dao_status_t status;
    bool has_tags;
    bool has_events; /* one is written */
} json_writer_t;

static DAO_PRINTF(2, 3) void put(json_writer_t *writer, const char *format, ...)
{
    if (writer->status != DAO_OK) {
        return;
    }
    char piece[PIECE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof(piece), format, arguments);
    va_end(arguments);
    DAO_ASSERT(length > 0 && (size_t)length < sizeof(piece));
    writer->status = writer->write(piece, (size_t)length, writer->user);
}

/* Writes the name of a tag as it stands between quotes. */
static const char *quoted_name(uint32_t tag, char out_name[NAME_BYTES])
{
    const char *from = dao_snapshot_tag_text(tag);
    size_t count;
    for (char *to = out_name; (count = dao_json_text_next(&from, to)) > 0;) {
        to += count;
    }
    return out_name;
}

static void put_frames(json_writer_t *writer, uint32_t tag)
{
    char name[NAME_BYTES];
    if (tag == 0) {
        put(writer, "\"frames\": []");
    } else {
        put(writer, "\"frames\": [{\"name\": \"%s\", \"filename\": \"dao\", \"line\": 0}]",
            quoted_name(tag, name));
    }
}

/* ---- segments ---- */

static void put_block(json_writer_t *writer, const dao_snapshot_block_t *block, bool is_first)
{
    put(writer,
        "%s\n    {\"address\": %" PRIu64 ", \"size\": %" PRIu64 ", \"requested_size\": %" PRIu64
        ", \"state\": \"%s\", \"tag\": %" PRIu32 ", ",
        is_first ? "" : ",", block->address, block->size_bytes, block->requested_bytes,
        dao_snapshot_state_text(block->state), block->tag);
    put_frames(writer, block->tag);
    put(writer, "}");
}

static void put_segment(json_writer_t *writer, const dao_snapshot_t *snapshot, size_t index)
{
    const dao_snapshot_segment_t *segment = &snapshot->segments[index];
    put(writer,
        "%s\n  {\"device\": %" PRId32 ", \"address\": %" PRIu64 ", \"total_size\": %" PRIu64
        ", \"allocated_size\": %" PRIu64 ", \"active_size\": %" PRIu64 ", \"requested_size\": %" PRIu64 ", ",
        index == 0 ? "" : ",", snapshot->place.index, segment->address, segment->size_bytes,
        segment->live_bytes, segment->live_bytes + segment->pending_bytes, segment->requested_bytes);
    put(writer, "\"stream\": 0, \"segment_type\": \"large\", \"segment_pool_id\": [0, 0], "
                "\"is_expandable\": false, \"frames\": [], \"blocks\": [");
    for (size_t i = 0; i < segment->block_count; i++) {
        put_block(writer, &snapshot->blocks[segment->first_block + i], i == 0);
    }
    put(writer, "]}");
}

/* ---- events ---- */

static void put_event(dao_snapshot_event_t event, const dao_snapshot_entry_t *entry, void *user)
{
    json_writer_t *writer = user;
    char name[NAME_BYTES];
    put(writer,
        "%s\n    {\"action\": \"%s\", \"addr\": %" PRIu64 ", \"size\": %" PRIu64
        ", \"stream\": %u, \"time_us\": %" PRIu64 ", ",
        writer->has_events ? "," : "", dao_snapshot_event_text(event), entry->address, entry->size_bytes,
        (unsigned)entry->stream, entry->time / 1000);
    put_frames(writer, entry->tag);
    if (writer->has_tags) {
        put(writer, ", \"category\": \"%s\"", quoted_name(entry->tag, name));
    }
    put(writer, "}");
    writer->has_events = true;
}

dao_status_t dao_snapshot_write_json(const dao_snapshot_t *snapshot, dao_write_t write, void *user)
{
    if (snapshot == NULL || write == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_snapshot_write_json: %s is NULL",
                         snapshot == NULL ? "snapshot" : "write");
    }
    char text[DAO_PLACE_TEXT_BYTES];
    json_writer_t writer = {.write = write, .user = user, .has_tags = dao_snapshot_has_tags(snapshot)};
    put(&writer, "{\"place\": \"%s\",\n \"segments\": [", dao_place_format(snapshot->place, text));
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        put_segment(&writer, snapshot, i);
    }
    put(&writer, "],\n \"device_traces\": [");
    for (int32_t i = 0; i < snapshot->place.index; i++) { /* all up to the place's, as in a pickle */
        put(&writer, "[], ");
    }
    put(&writer, "[");
    dao_snapshot_walk_events(snapshot, put_event, &writer);
    put(&writer, "]]}\n");
    return writer.status == DAO_OK ? DAO_OK : dao_error_refused("dao_snapshot_write_json", writer.status);
}
