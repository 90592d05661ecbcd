/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot as PyTorch's memory viewer takes it: a pickle of protocol 2, a list of events for every device
   up to the highest, a category for all events or for none, of which one has to be "unknown". A tag is the
   category and the one frame of what it is for. */
#include "runtime/observe/snapshot.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/report/pickle_writer.h"

#include <dao/tag.h>

/* Texts that recur. */
enum {
    TEXT_ADDRESS,
    TEXT_SIZE,
    TEXT_REQUESTED,
    TEXT_STATE,
    TEXT_TAG,
    TEXT_FRAMES,
    TEXT_STREAM,
    TEXT_ACTION,
    TEXT_ADDR,
    TEXT_TIME_US,
    TEXT_CATEGORY,
    TEXT_COUNT
};

typedef struct snapshot_writer {
    const dao_snapshot_t *snapshot;
    dao_pickle_writer_t pickle;
    dao_pickle_memo_t texts[TEXT_COUNT];
    dao_pickle_memo_t states[DAO_BLOCK_STATE_PENDING + 1];
    dao_pickle_memo_t events[DAO_SNAPSHOT_EVENT_COUNT];
    dao_pickle_memo_t tags[DAO_TAG_COUNT_MAX];
    dao_pickle_memo_t frames[DAO_TAG_COUNT_MAX]; /* of each tag; 0 has none */
    uint32_t event_count;                        /* so far */
    bool has_tags;
} snapshot_writer_t;

static void put_count(snapshot_writer_t *writer, const char *key, dao_pickle_memo_t *memo, uint64_t count)
{
    dao_pickle_text(&writer->pickle, key, memo);
    dao_pickle_count(&writer->pickle, count);
}

static void put_tag(snapshot_writer_t *writer, uint32_t tag)
{
    dao_pickle_text(&writer->pickle, dao_snapshot_tag_text(tag), &writer->tags[tag]);
}

/* Writes the frames of a tag: one of its name, or none. */
static void put_frames(snapshot_writer_t *writer, uint32_t tag)
{
    dao_pickle_writer_t *pickle = &writer->pickle;
    dao_pickle_memo_t *memo = &writer->frames[tag];
    uint32_t count = 0;
    dao_pickle_text(pickle, "frames", &writer->texts[TEXT_FRAMES]);
    if (tag == 0) {
        dao_pickle_empty_list(pickle, memo);
    } else if (*memo != 0) {
        dao_pickle_again(pickle, *memo);
    } else {
        dao_pickle_list_begin(pickle);
        dao_pickle_list_item(pickle, &count);
        dao_pickle_dict_begin(pickle);
        dao_pickle_text(pickle, "name", NULL);
        put_tag(writer, tag);
        dao_pickle_text(pickle, "filename", NULL);
        dao_pickle_text(pickle, "dao", NULL);
        put_count(writer, "line", NULL, 0);
        dao_pickle_dict_end(pickle);
        dao_pickle_list_end(pickle);
        dao_pickle_note(pickle, memo);
    }
}

/* ---- segments ---- */

static void put_block(snapshot_writer_t *writer, const dao_snapshot_block_t *block)
{
    dao_pickle_writer_t *pickle = &writer->pickle;
    dao_pickle_dict_begin(pickle);
    put_count(writer, "address", &writer->texts[TEXT_ADDRESS], block->address);
    put_count(writer, "size", &writer->texts[TEXT_SIZE], block->size_bytes);
    put_count(writer, "requested_size", &writer->texts[TEXT_REQUESTED], block->requested_bytes);
    dao_pickle_text(pickle, "state", &writer->texts[TEXT_STATE]);
    dao_pickle_text(pickle, dao_snapshot_state_text(block->state), &writer->states[block->state]);
    put_count(writer, "tag", &writer->texts[TEXT_TAG], block->tag);
    put_frames(writer, block->tag);
    dao_pickle_dict_end(pickle);
}

static void put_segment(snapshot_writer_t *writer, const dao_snapshot_segment_t *segment)
{
    dao_pickle_writer_t *pickle = &writer->pickle;
    uint32_t count = 0;
    dao_pickle_dict_begin(pickle);
    put_count(writer, "device", NULL, (uint64_t)writer->snapshot->place.index);
    put_count(writer, "address", &writer->texts[TEXT_ADDRESS], segment->address);
    put_count(writer, "total_size", NULL, segment->size_bytes);
    put_count(writer, "allocated_size", NULL, segment->live_bytes);
    put_count(writer, "active_size", NULL, segment->live_bytes + segment->pending_bytes);
    put_count(writer, "requested_size", &writer->texts[TEXT_REQUESTED], segment->requested_bytes);
    put_count(writer, "stream", &writer->texts[TEXT_STREAM], 0);
    dao_pickle_text(pickle, "segment_type", NULL);
    dao_pickle_text(pickle, "large", NULL);
    dao_pickle_text(pickle, "is_expandable", NULL);
    dao_pickle_flag(pickle, false);
    dao_pickle_text(pickle, "blocks", NULL);
    dao_pickle_list_begin(pickle);
    for (size_t i = 0; i < segment->block_count; i++) {
        dao_pickle_list_item(pickle, &count);
        put_block(writer, &writer->snapshot->blocks[segment->first_block + i]);
    }
    dao_pickle_list_end(pickle);
    dao_pickle_dict_end(pickle);
}

static void put_segments(snapshot_writer_t *writer)
{
    uint32_t count = 0;
    dao_pickle_text(&writer->pickle, "segments", NULL);
    dao_pickle_list_begin(&writer->pickle);
    for (size_t i = 0; i < writer->snapshot->segment_count; i++) {
        dao_pickle_list_item(&writer->pickle, &count);
        put_segment(writer, &writer->snapshot->segments[i]);
    }
    dao_pickle_list_end(&writer->pickle);
}

/* ---- events ---- */

static void put_event(dao_snapshot_event_t event, const dao_snapshot_entry_t *entry, void *user)
{
    snapshot_writer_t *writer = user;
    dao_pickle_writer_t *pickle = &writer->pickle;
    dao_pickle_list_item(pickle, &writer->event_count);
    dao_pickle_dict_begin(pickle);
    dao_pickle_text(pickle, "action", &writer->texts[TEXT_ACTION]);
    dao_pickle_text(pickle, dao_snapshot_event_text(event), &writer->events[event]);
    put_count(writer, "addr", &writer->texts[TEXT_ADDR], entry->address);
    put_count(writer, "size", &writer->texts[TEXT_SIZE], entry->size_bytes);
    put_count(writer, "stream", &writer->texts[TEXT_STREAM], entry->stream);
    put_count(writer, "time_us", &writer->texts[TEXT_TIME_US], entry->time / 1000);
    put_frames(writer, entry->tag);
    if (writer->has_tags) {
        dao_pickle_text(pickle, "category", &writer->texts[TEXT_CATEGORY]);
        put_tag(writer, entry->tag);
    }
    dao_pickle_dict_end(pickle);
}

/* Writes a list of events for every device up to the place's, or the viewer stays blank. */
static void put_traces(snapshot_writer_t *writer)
{
    dao_pickle_writer_t *pickle = &writer->pickle;
    uint32_t count = 0;
    dao_pickle_text(pickle, "device_traces", NULL);
    dao_pickle_list_begin(pickle);
    for (int32_t i = 0; i <= writer->snapshot->place.index; i++) {
        dao_pickle_list_item(pickle, &count);
        dao_pickle_list_begin(pickle);
        if (i == writer->snapshot->place.index) {
            dao_snapshot_walk_events(writer->snapshot, put_event, writer);
        }
        dao_pickle_list_end(pickle);
    }
    dao_pickle_list_end(pickle);
}

dao_status_t dao_snapshot_write_pickle(const dao_snapshot_t *snapshot, dao_write_t write, void *user)
{
    if (snapshot == NULL || write == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_snapshot_write_pickle: %s is NULL",
                         snapshot == NULL ? "snapshot" : "write");
    }
    snapshot_writer_t *writer = dao_host_calloc(1, sizeof(*writer)); /* too large for some stacks */
    if (writer == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to write a snapshot: %zu bytes",
                         sizeof(*writer));
    }
    writer->snapshot = snapshot;
    writer->has_tags = dao_snapshot_has_tags(snapshot);
    dao_pickle_begin(&writer->pickle, write, user);
    dao_pickle_dict_begin(&writer->pickle);
    put_segments(writer);
    put_traces(writer);
    dao_pickle_dict_end(&writer->pickle);
    dao_status_t status = dao_pickle_end(&writer->pickle);
    dao_host_free(writer);
    return status == DAO_OK ? DAO_OK : dao_error_refused("dao_snapshot_write_pickle", status);
}
