/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/read/events/read_event_file.h"
#include "tools/write/put_text.h"
#include "tools/write/writers.h"

#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

/* An id stands for one life in such a file. A second buffer of the same name gets its number behind it. */
static dao_status_t put_id(FILE *file, const dao_history_t *history, uint32_t number, dao_id_map_t *ids)
{
    const char *id = history->buffers[number].id;
    bool is_known = false;
    uint64_t owner = number;
    if (id == NULL) {
        (void)fprintf(file, "%" PRIu32, number);
        return DAO_OK;
    }
    if (strpbrk(id, "\r\n") != NULL) {
        return dao_error(DAO_ERR_INVALID, "\"%.64s\" cannot be an id of a CSV file: it has a line's end", id);
    }
    dao_status_t status = dao_id_map_add(ids, id, strlen(id), number, &is_known, &owner);
    if (status == DAO_OK) {
        dao_put_csv(file, id);
    }
    if (status == DAO_OK && owner != number) {
        (void)fprintf(file, "#%" PRIu32, number);
    }
    return status;
}

static dao_status_t put_line(FILE *file, const dao_history_t *history, const dao_history_event_t *event,
                             dao_id_map_t *ids)
{
    bool has_operator = event->operator_index != DAO_TRACE_NONE;
    (void)fprintf(file, "%" PRIu64 ",%s,", event->time_ns, event->is_alloc ? "alloc" : "free");
    dao_status_t status = put_id(file, history, event->buffer, ids);
    (void)fprintf(file, ",%" PRIu64 ",%" PRIu32 "\n", history->buffers[event->buffer].size_bytes,
                  has_operator ? event->operator_index : 0);
    return status;
}

dao_status_t dao_write_events(FILE *file, const dao_history_t *history)
{
    dao_id_map_t ids;
    dao_status_t status = DAO_OK;
    dao_id_map_init(&ids);
    (void)fputs(DAO_EVENT_FILE_HEADER "\n", file);
    for (uint32_t i = 0; i < history->buffer_count && status == DAO_OK; i++) {
        dao_history_event_t event = {.buffer = i, .operator_index = DAO_TRACE_NONE, .is_alloc = true};
        status = history->buffers[i].is_before ? put_line(file, history, &event, &ids) : DAO_OK;
    }
    (void)fputs("0,step,,0,0\n", file);
    for (size_t i = 0; i < history->event_count && status == DAO_OK; i++) {
        status = put_line(file, history, &history->events[i], &ids);
    }
    dao_id_map_finish(&ids);
    return status;
}
