/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of CSV, and the file around them. */
#include "tools/plan/plan_write.h"

#include "base/report/error.h"
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

dao_status_t dao_plan_write_lines(FILE *file, const dao_plan_input_t *input, const dao_plan_t *plan)
{
    columns_t columns = find_columns(input, plan);
    size_t gap = 0;
    (void)fprintf(file, "id,lower,upper,size%s%s%s%s\n", columns.has_alignment ? ",alignment" : "",
                  columns.has_gaps ? ",gaps" : "", columns.has_pools ? ",pool" : "",
                  columns.has_offsets ? ",offset" : "");
    for (size_t i = 0; i < input->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &input->buffers[i];
        char number[DAO_PLAN_INPUT_NUMBER_BYTES];
        const char *id = dao_plan_input_id(input, i, number);
        if (strpbrk(id, "\r\n") != NULL) {
            return dao_error(DAO_ERR_INVALID, "\"%.64s\" cannot be an id of a CSV file: it has a line's end",
                             id);
        }
        dao_put_csv(file, id);
        write_time(file, input, i, buffer->begin_time, input->begin_clocks);
        write_time(file, input, i, buffer->end_time, input->end_clocks);
        (void)fprintf(file, ",%" PRIu64, buffer->size_bytes);
        if (columns.has_alignment) {
            (void)fprintf(file, ",%" PRIu32, buffer->alignment_bytes);
        }
        if (columns.has_gaps) {
            write_gaps(file, input, i, &gap);
        }
        if (columns.has_pools) {
            write_pool(file, offset_of(input, plan, i) != DAO_PLAN_NOWHERE ? pool_of(input, plan, i)
                                                                           : buffer->pool);
        }
        if (columns.has_offsets) {
            write_offset(file, offset_of(input, plan, i));
        }
        (void)fputc('\n', file);
    }
    return DAO_OK;
}

dao_status_t dao_plan_write(const char *path, const dao_plan_input_t *input, const dao_plan_t *plan)
{
    FILE *file = dao_out_file_open(path);
    return file == NULL ? DAO_ERR_IO
                        : dao_out_file_close(file, path, dao_plan_write_lines(file, input, plan));
}
