/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of CSV, and the file around them. */
#include "tools/plan/plan_write.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "tools/base/id_map.h"
#include "tools/write/out_file.h"
#include "tools/write/put_text.h"

#include <inttypes.h>
#include <string.h>

/* Which columns there are beside the usual ones. */
typedef struct columns {
    bool has_alignment;
    bool has_gaps;
    bool has_pools;
    bool has_offsets;
} columns_t;

/* Where a buffer is, by a plan or, without one, by the file. */
static uint64_t offset_of(const dao_plan_input_t *input, const dao_plan_t *plan, size_t buffer)
{
    return plan != NULL ? dao_plan_offset(plan, buffer) : input->buffers[buffer].fixed_offset;
}

static uint32_t pool_of(const dao_plan_input_t *input, const dao_plan_t *plan, size_t buffer)
{
    return plan != NULL ? dao_plan_pool(plan, buffer) : input->buffers[buffer].pool;
}

static columns_t find_columns(const dao_plan_input_t *input, const dao_plan_t *plan)
{
    columns_t columns = {
        .has_gaps = input->gap_count > 0, .has_pools = input->pool_count > 0, .has_offsets = plan != NULL};
    for (size_t i = 0; i < input->buffer_count; i++) {
        columns.has_alignment = columns.has_alignment || input->buffers[i].alignment_bytes != 0;
        uint32_t pool = pool_of(input, plan, i);
        columns.has_offsets = columns.has_offsets || offset_of(input, plan, i) != DAO_PLAN_NOWHERE;
        columns.has_pools = columns.has_pools || (pool != 0 && pool != DAO_PLAN_ANY_POOL);
    }
    return columns;
}

/* Writes the gaps of a buffer from *next on, and steps over them. */
static void write_gaps(FILE *file, const dao_plan_input_t *input, size_t buffer, size_t *next)
{
    const char *between = "";
    (void)fputc(',', file);
    for (; *next < input->gap_count && input->gaps[*next].buffer == buffer; (*next)++) {
        const dao_plan_gap_t *gap = &input->gaps[*next];
        (void)fprintf(file, "%s%" PRIu64 "-%" PRIu64, between, gap->begin_time, gap->end_time);
        if (gap->low_byte > 0 || gap->high_byte < input->buffers[buffer].size_bytes) {
            (void)fprintf(file, "@%" PRIu64 ":%" PRIu64, gap->low_byte, gap->high_byte);
        }
        between = " ";
    }
}

static void write_pool(FILE *file, uint32_t pool)
{
    (void)fputc(',', file);
    if (pool != DAO_PLAN_ANY_POOL) {
        (void)fprintf(file, "%" PRIu32, pool);
    }
}

static void write_offset(FILE *file, uint64_t offset)
{
    (void)fputc(',', file);
    if (offset != DAO_PLAN_NOWHERE) {
        (void)fprintf(file, "%" PRIu64, offset);
    }
}

/* Writes a time, or the clocks of one. */
static void write_time(FILE *file, const dao_plan_input_t *input, size_t buffer, uint64_t time,
                       const uint32_t *clocks)
{
    if (input->clock_count == 0) {
        (void)fprintf(file, ",%" PRIu64, time);
    }
    for (uint32_t i = 0; i < input->clock_count; i++) {
        (void)fprintf(file, "%c%" PRIu32, i == 0 ? ',' : ':', clocks[buffer * input->clock_count + i]);
    }
}

/* Ids of a file are different, those of a step's temporaries need not be. */
typedef struct id_writer {
    dao_id_map_t taken;   /* all ids that there are */
    dao_id_map_t written; /* of these */
} id_writer_t;

static bool is_in(const dao_id_map_t *map, const char *id)
{
    uint64_t value;
    return dao_id_map_find(map, id, strlen(id), &value);
}

static dao_status_t add(dao_id_map_t *map, const char *id)
{
    bool is_known;
    uint64_t value;
    return dao_id_map_add(map, id, strlen(id), 0, &is_known, &value);
}

/* Notes all ids, to keep those of the input that look like one that is made here. */
static dao_status_t note_ids(id_writer_t *ids, const dao_plan_input_t *input)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < input->buffer_count && status == DAO_OK; i++) {
        char number[DAO_PLAN_INPUT_NUMBER_BYTES];
        const char *id = dao_plan_input_id(input, i, number);
        status = strpbrk(id, "\r\n") == NULL
                     ? add(&ids->taken, id)
                     : dao_error(DAO_ERR_INVALID,
                                 "\"%.64s\" cannot be an id of a CSV file: it has a line's end", id);
    }
    return status;
}

/* Writes the id of a buffer; of one whose id stands there already, with the buffer's number. */
static dao_status_t write_id(FILE *file, id_writer_t *ids, const dao_plan_input_t *input, size_t buffer)
{
    char number[DAO_PLAN_INPUT_NUMBER_BYTES];
    const char *id = dao_plan_input_id(input, buffer, number);
    if (!is_in(&ids->written, id)) {
        dao_put_csv(file, id);
        return add(&ids->written, id);
    }
    size_t size = strlen(id) + DAO_PLAN_INPUT_NUMBER_BYTES + 1;
    char *other = dao_host_calloc(size, 1);
    if (other == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the ids of a file");
    }
    size_t at = buffer;
    do {
        (void)snprintf(other, size, "%s@%zu", id, at);
        at += input->buffer_count;
    } while (is_in(&ids->taken, other) || is_in(&ids->written, other));
    dao_put_csv(file, other);
    dao_status_t status = add(&ids->written, other);
    dao_host_free(other);
    return status;
}

static dao_status_t write_line(FILE *file, id_writer_t *ids, const columns_t *columns,
                               const dao_plan_input_t *input, const dao_plan_t *plan, size_t i, size_t *gap)
{
    const dao_plan_buffer_t *buffer = &input->buffers[i];
    uint64_t offset = offset_of(input, plan, i);
    dao_status_t status = write_id(file, ids, input, i);
    write_time(file, input, i, buffer->begin_time, input->begin_clocks);
    write_time(file, input, i, buffer->end_time, input->end_clocks);
    (void)fprintf(file, ",%" PRIu64, buffer->size_bytes);
    if (columns->has_alignment) {
        (void)fprintf(file, ",%" PRIu32, buffer->alignment_bytes);
    }
    if (columns->has_gaps) {
        write_gaps(file, input, i, gap);
    }
    if (columns->has_pools) {
        write_pool(file, offset != DAO_PLAN_NOWHERE ? pool_of(input, plan, i) : buffer->pool);
    }
    if (columns->has_offsets) {
        write_offset(file, offset);
    }
    (void)fputc('\n', file);
    return status;
}

dao_status_t dao_plan_write_lines(FILE *file, const dao_plan_input_t *input, const dao_plan_t *plan)
{
    columns_t columns = find_columns(input, plan);
    id_writer_t ids;
    size_t gap = 0;
    dao_id_map_init(&ids.taken);
    dao_id_map_init(&ids.written);
    dao_status_t status = note_ids(&ids, input);
    (void)fprintf(file, "id,lower,upper,size%s%s%s%s\n", columns.has_alignment ? ",alignment" : "",
                  columns.has_gaps ? ",gaps" : "", columns.has_pools ? ",pool" : "",
                  columns.has_offsets ? ",offset" : "");
    for (size_t i = 0; i < input->buffer_count && status == DAO_OK; i++) {
        status = write_line(file, &ids, &columns, input, plan, i, &gap);
    }
    dao_id_map_finish(&ids.taken);
    dao_id_map_finish(&ids.written);
    return status;
}

dao_status_t dao_plan_write(const char *path, const dao_plan_input_t *input, const dao_plan_t *plan)
{
    FILE *file = dao_out_file_open(path);
    return file == NULL ? DAO_ERR_IO
                        : dao_out_file_close(file, path, dao_plan_write_lines(file, input, plan));
}
