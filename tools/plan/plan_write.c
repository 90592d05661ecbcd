/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of CSV, and the file around them. */
#include "tools/plan/plan_write.h"

#include "base/report/error.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

FILE *dao_plan_file_open(const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        (void)dao_error(DAO_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    return file;
}

dao_status_t dao_plan_file_close(FILE *file, const char *path, dao_status_t status)
{
    bool has_failed = ferror(file) != 0;
    errno = 0;
    has_failed = fclose(file) != 0 || has_failed;
    if (status != DAO_OK || !has_failed) {
        return status;
    }
    return dao_error(DAO_ERR_IO, "%.200s: the file could not be written%s%s", path, errno != 0 ? ": " : "",
                     errno != 0 ? strerror(errno) : "");
}

/* Which columns there are beside the usual ones. */
typedef struct columns {
    bool has_alignment;
    bool has_gaps;
    bool has_pools;
} columns_t;

static columns_t find_columns(const dao_plan_input_t *input, const dao_plan_t *plan)
{
    columns_t columns = {.has_gaps = input->gap_count > 0, .has_pools = input->pool_count > 0};
    for (size_t i = 0; i < input->buffer_count; i++) {
        columns.has_alignment = columns.has_alignment || input->buffers[i].alignment_bytes != 0;
        uint32_t pool = dao_plan_pool(plan, i);
        columns.has_pools = columns.has_pools || (pool != 0 && pool != DAO_PLAN_ANY_POOL);
    }
    return columns;
}

/* Puts what a reader would take for a mark in quotes. */
static void write_id(FILE *file, const char *id)
{
    if (strpbrk(id, ",;\"") == NULL) {
        (void)fputs(id, file);
        return;
    }
    (void)fputc('"', file);
    for (const char *at = id; *at != '\0'; at++) {
        (void)fputs(*at == '"' ? "\"\"" : (const char[]){*at, '\0'}, file);
    }
    (void)fputc('"', file);
}

/* Writes the gaps of a buffer from *next on, and steps over them. */
static void write_gaps(FILE *file, const dao_plan_input_t *input, size_t buffer, size_t *next)
{
    const char *between = "";
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
    if (pool != DAO_PLAN_ANY_POOL) {
        (void)fprintf(file, "%" PRIu32, pool);
    }
    (void)fputc(',', file);
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

static dao_status_t write_lines(FILE *file, const dao_plan_input_t *input, const dao_plan_t *plan)
{
    columns_t columns = find_columns(input, plan);
    size_t gap = 0;
    (void)fprintf(file, "id,lower,upper,size,%s%s%soffset\n", columns.has_alignment ? "alignment," : "",
                  columns.has_gaps ? "gaps," : "", columns.has_pools ? "pool," : "");
    for (size_t i = 0; i < input->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &input->buffers[i];
        char number[DAO_PLAN_INPUT_NUMBER_BYTES];
        const char *id = dao_plan_input_id(input, i, number);
        if (strpbrk(id, "\r\n") != NULL) {
            return dao_error(DAO_ERR_INVALID, "\"%.64s\" cannot be an id of a CSV file: it has a line's end",
                             id);
        }
        write_id(file, id);
        write_time(file, input, i, buffer->begin_time, input->begin_clocks);
        write_time(file, input, i, buffer->end_time, input->end_clocks);
        (void)fprintf(file, ",%" PRIu64 ",", buffer->size_bytes);
        if (columns.has_alignment) {
            (void)fprintf(file, "%" PRIu32 ",", buffer->alignment_bytes);
        }
        if (columns.has_gaps) {
            write_gaps(file, input, i, &gap);
            (void)fputc(',', file);
        }
        if (columns.has_pools) {
            write_pool(file,
                       dao_plan_offset(plan, i) != DAO_PLAN_NOWHERE ? dao_plan_pool(plan, i) : buffer->pool);
        }
        if (dao_plan_offset(plan, i) != DAO_PLAN_NOWHERE) {
            (void)fprintf(file, "%" PRIu64, dao_plan_offset(plan, i));
        }
        (void)fputc('\n', file);
    }
    return DAO_OK;
}

dao_status_t dao_plan_write(const char *path, const dao_plan_input_t *input, const dao_plan_t *plan)
{
    FILE *file = dao_plan_file_open(path);
    return file == NULL ? DAO_ERR_IO : dao_plan_file_close(file, path, write_lines(file, input, plan));
}
