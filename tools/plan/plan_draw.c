/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a picture:

       ^ offset
       |-----------------------------  peak
       |  +---+  ::::::   +--------+
       |  | a |  ::::::   |   b    |
       +-----------------------------> time

   A buffer is drawn as a rectangle if both of its sides are large enough. How large that is follows from how
   many rectangles a viewer still shows at ease. What is smaller goes into a grid of cells; a cell is as dark
   as the part of it that is used. */
#include "tools/plan/plan_write.h"

#include "base/memory/host.h"
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/text/printable.h"
#include "tools/write/out_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    WIDTH = 1200, /* of the plot, in pixels */
    HEIGHT = 720,
    LEFT = 90, /* around it */
    RIGHT = 50,
    TOP = 40,
    BOTTOM = 70,
    CELL = 6,
    COLUMN_COUNT = WIDTH / CELL,
    ROW_COUNT = HEIGHT / CELL,
    DRAWN_COUNT_MAX = 20000,
    TICK_COUNT = 8,
    LETTER_WIDTH = 6, /* about, of a label's font */
    LABEL_HEIGHT = 11,
    SHADE_COUNT = 8
};

#define SIDE_MIN 0.4 /* a rectangle's, in pixels, where all can be drawn */

/* From those that live half of the time and longer to those that live less than a 128th of it. */
static const char *const shades[SHADE_COUNT] = {"#3b0f70", "#46327e", "#365c8d", "#277f8e",
                                                "#1fa187", "#4ac16d", "#a0da39", "#fde725"};

typedef struct drawing {
    FILE *file;
    const dao_plan_input_t *input;
    const dao_plan_t *plan;
    dao_plan_report_t report;
    uint64_t begin, end;                           /* of all lives */
    double time_step;                              /* pixels a unit of time */
    double offset_step;                            /* pixels a byte */
    double side_min;                               /* of rectangles that are drawn one by one */
    uint64_t pool_begins[DAO_PLAN_POOL_COUNT_MAX]; /* where each begins, above the peaks of those before */
    double *cells;                                 /* the part of each cell that small ones use */
} drawing_t;

typedef struct box {
    double x, y, width, height; /* in pixels of the plot, y from below */
} box_t;

/* Finds where a buffer lies; false: nowhere. */
static bool find_box(const drawing_t *drawing, size_t index, box_t *out_box)
{
    const dao_plan_buffer_t *buffer = &drawing->input->buffers[index];
    uint64_t offset = dao_plan_offset(drawing->plan, index);
    if (offset == DAO_PLAN_NOWHERE) {
        return false;
    }
    uint64_t bottom = drawing->pool_begins[dao_plan_pool(drawing->plan, index)] + offset;
    *out_box = (box_t){.x = (double)(buffer->begin_time - drawing->begin) * drawing->time_step,
                       .y = (double)bottom * drawing->offset_step,
                       .width = (double)(buffer->end_time - buffer->begin_time) * drawing->time_step,
                       .height = (double)buffer->size_bytes * drawing->offset_step};
    return true;
}

static bool is_drawn(const drawing_t *drawing, const box_t *box)
{
    return box->width >= drawing->side_min && box->height >= drawing->side_min;
}

/* ---- scale ---- */

static void find_scale(drawing_t *drawing)
{
    const dao_plan_input_t *input = drawing->input;
    drawing->begin = UINT64_MAX;
    for (size_t i = 0; i < input->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &input->buffers[i];
        drawing->begin = buffer->begin_time < drawing->begin ? buffer->begin_time : drawing->begin;
        drawing->end = buffer->end_time > drawing->end ? buffer->end_time : drawing->end;
    }
    for (uint32_t i = 1; i < DAO_PLAN_POOL_COUNT_MAX; i++) {
        drawing->pool_begins[i] = drawing->pool_begins[i - 1] + dao_plan_pool_peak(drawing->plan, i - 1);
    }
    uint64_t peak = drawing->report.peak_bytes;
    drawing->time_step = WIDTH / (double)(drawing->end - drawing->begin);
    drawing->offset_step = HEIGHT / (double)(peak > 0 ? peak : 1);
}

/* Doubles the least side until few enough are left to draw. */
static void find_side(drawing_t *drawing)
{
    size_t count = DRAWN_COUNT_MAX + 1;
    for (drawing->side_min = SIDE_MIN / 2; count > DRAWN_COUNT_MAX;) {
        drawing->side_min *= 2;
        count = 0;
        for (size_t i = 0; i < drawing->input->buffer_count; i++) {
            box_t box;
            count += find_box(drawing, i, &box) && is_drawn(drawing, &box) ? 1 : 0;
        }
    }
}

/* ---- small ones ---- */

static double overlap(double begin, double end, int cell)
{
    double low = fmax(begin, (double)cell * CELL);
    double high = fmin(end, (double)(cell + 1) * CELL);
    return fmax(high - low, 0);
}

static int cell_of(double at, int count)
{
    int cell = (int)(at / CELL);
    return cell < count ? cell : count - 1;
}

static void shade_cells(drawing_t *drawing, const box_t *box)
{
    for (int row = cell_of(box->y, ROW_COUNT); row <= cell_of(box->y + box->height, ROW_COUNT); row++) {
        double height = overlap(box->y, box->y + box->height, row);
        for (int column = cell_of(box->x, COLUMN_COUNT); column <= cell_of(box->x + box->width, COLUMN_COUNT);
             column++) {
            double width = overlap(box->x, box->x + box->width, column);
            drawing->cells[row * COLUMN_COUNT + column] += width * height / (CELL * CELL);
        }
    }
}

static void draw_cells(const drawing_t *drawing)
{
    static const double seen = 0.02; /* less is white */
    for (int row = 0; row < ROW_COUNT; row++) {
        for (int column = 0; column < COLUMN_COUNT; column++) {
            double used = drawing->cells[row * COLUMN_COUNT + column];
            if (used >= seen) {
                (void)fprintf(drawing->file,
                              "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill-opacity=\"%.2f\"/>\n",
                              LEFT + column * CELL, TOP + HEIGHT - (row + 1) * CELL, CELL, CELL,
                              fmin(used, 1));
            }
        }
    }
}

/* ---- what is drawn one by one ---- */

/* Bytes of a text that are drawn; longer ones are cut. */
#define TEXT_BYTES 1024

/* Writes text as XML holds it, which has no place for control characters and malformed UTF-8. */
static void write_text(FILE *file, const char *raw)
{
    char printable[TEXT_BYTES];
    (void)snprintf(printable, sizeof(printable), "%s", raw);
    dao_make_printable(printable);
    for (const char *text = printable; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", file);
            break;
        case '<':
            (void)fputs("&lt;", file);
            break;
        case '"':
            (void)fputs("&quot;", file);
            break;
        default:
            (void)fputc(*text, file);
        }
    }
}

static const char *find_shade(const box_t *box)
{
    int shade = (int)ceil(log2(WIDTH / box->width)) - 1; /* 0: half of all time and more */
    return shades[shade < 0 ? 0 : shade >= SHADE_COUNT ? SHADE_COUNT - 1 : shade];
}

static void draw_box(const drawing_t *drawing, size_t index, const box_t *box)
{
    const dao_plan_buffer_t *buffer = &drawing->input->buffers[index];
    char number[DAO_PLAN_INPUT_NUMBER_BYTES];
    const char *id = dao_plan_input_id(drawing->input, index, number);
    double top = TOP + HEIGHT - box->y - box->height;
    (void)fprintf(drawing->file,
                  "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"><title>",
                  LEFT + box->x, top, box->width, box->height, find_shade(box));
    write_text(drawing->file, id);
    (void)fprintf(
        drawing->file, ": time %" PRIu64 " to %" PRIu64 ", %" PRIu64 " bytes at %" PRIu64 "</title></rect>\n",
        buffer->begin_time, buffer->end_time, buffer->size_bytes, dao_plan_offset(drawing->plan, index));
    if (box->height >= LABEL_HEIGHT && box->width >= (double)(LETTER_WIDTH * (strlen(id) + 1))) {
        (void)fprintf(drawing->file, "<text class=\"id\" x=\"%.2f\" y=\"%.2f\">",
                      LEFT + box->x + box->width / 2, top + box->height / 2);
        write_text(drawing->file, id);
        (void)fputs("</text>\n", drawing->file);
    }
}

static void draw_buffers(drawing_t *drawing)
{
    box_t box;
    for (size_t i = 0; i < drawing->input->buffer_count; i++) {
        if (find_box(drawing, i, &box) && !is_drawn(drawing, &box)) {
            shade_cells(drawing, &box);
        }
    }
    (void)fputs("<g fill=\"#555\" shape-rendering=\"crispEdges\">\n", drawing->file);
    draw_cells(drawing);
    (void)fputs("</g>\n<g stroke=\"#fff\" stroke-width=\"0.3\">\n", drawing->file);
    for (size_t i = 0; i < drawing->input->buffer_count; i++) {
        if (find_box(drawing, i, &box) && is_drawn(drawing, &box)) {
            draw_box(drawing, i, &box);
        }
    }
    (void)fputs("</g>\n", drawing->file);
}

/* ---- around it ---- */

/* Returns so many parts of TICK_COUNT. */
static uint64_t part_of(uint64_t whole, uint64_t parts)
{
    return whole / TICK_COUNT * parts + whole % TICK_COUNT * parts / TICK_COUNT;
}

static void draw_axes(const drawing_t *drawing)
{
    FILE *file = drawing->file;
    char size[DAO_UNITS_TEXT_BYTES];
    (void)fprintf(file, "<rect class=\"line\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, TOP,
                  WIDTH, HEIGHT);
    for (unsigned i = 0; i <= TICK_COUNT; i++) {
        double part = (double)i / TICK_COUNT;
        double x = LEFT + WIDTH * part, y = TOP + HEIGHT * (1 - part);
        uint64_t time = drawing->begin + part_of(drawing->end - drawing->begin, i);
        uint64_t offset = part_of(drawing->report.peak_bytes, i);
        (void)fprintf(file, "<path class=\"line\" d=\"M%.1f %d v5 M%d %.1f h-5\"/>\n", x, TOP + HEIGHT, LEFT,
                      y);
        (void)fprintf(file, "<text class=\"time\" x=\"%.1f\" y=\"%d\">%" PRIu64 "</text>\n", x,
                      TOP + HEIGHT + 18, time);
        (void)fprintf(file, "<text class=\"offset\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT - 8, y + 4,
                      dao_units_format_bytes(offset, size));
    }
}

/* Names the pools at the right, if there is anything in another one than the first. */
static void draw_pools(const drawing_t *drawing)
{
    if (dao_plan_pool_peak(drawing->plan, 0) == drawing->report.peak_bytes) {
        return;
    }
    for (uint32_t i = 0; i < DAO_PLAN_POOL_COUNT_MAX; i++) {
        if (dao_plan_pool_peak(drawing->plan, i) > 0) {
            double y = TOP + HEIGHT - (double)drawing->pool_begins[i] * drawing->offset_step;
            (void)fprintf(drawing->file, "<path class=\"line\" d=\"M%d %.1f h%d\"/>\n", LEFT, y,
                          WIDTH + RIGHT);
            (void)fprintf(drawing->file, "<text x=\"%d\" y=\"%.1f\">pool %" PRIu32 "</text>\n",
                          LEFT + WIDTH + 4, y - 4, i);
        }
    }
}

static void draw_bound(const drawing_t *drawing)
{
    const dao_plan_report_t *report = &drawing->report;
    if (report->bound_bytes < report->peak_bytes) {
        double y = TOP + HEIGHT - (double)report->bound_bytes * drawing->offset_step;
        (void)fprintf(drawing->file,
                      "<path class=\"bound\" d=\"M%d %.1f h%d\"><title>bound: no plan is lower than %" PRIu64
                      "</title></path>\n",
                      LEFT, y, WIDTH, report->bound_bytes);
    }
}

static void draw_legend(const drawing_t *drawing)
{
    int y = TOP + HEIGHT + 40;
    (void)fprintf(drawing->file, "<text x=\"%d\" y=\"%d\">lives half of the time or longer</text>\n", LEFT,
                  y + 10);
    for (int i = 0; i < SHADE_COUNT; i++) {
        (void)fprintf(drawing->file, "<rect x=\"%d\" y=\"%d\" width=\"24\" height=\"12\" fill=\"%s\"/>\n",
                      LEFT + 200 + 24 * i, y, shades[i]);
    }
    (void)fprintf(drawing->file,
                  "<text x=\"%d\" y=\"%d\">less than a %dth of it; grey: those too small to be seen</text>\n",
                  LEFT + 210 + 24 * SHADE_COUNT, y + 10, 1 << (SHADE_COUNT - 1));
}

static void draw(drawing_t *drawing, const char *title)
{
    FILE *file = drawing->file;
    const dao_plan_report_t *report = &drawing->report;
    (void)fprintf(
        file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n"
        "<style>.line{fill:none;stroke:#000}.bound{stroke:#c00;stroke-dasharray:6 4;stroke-width:1.5}"
        ".id{font-size:9px;fill:#fff;stroke:#000;stroke-width:2px;paint-order:stroke;text-anchor:middle;"
        "dominant-baseline:central}.time{text-anchor:middle}.offset{text-anchor:end}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
    (void)fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"15\">", LEFT, TOP - 14);
    write_text(file, title);
    (void)fprintf(file, ": %zu buffers, peak %" PRIu64 ", bound %" PRIu64 "</text>\n",
                  drawing->input->buffer_count, report->peak_bytes, report->bound_bytes);
    draw_buffers(drawing);
    draw_bound(drawing);
    draw_pools(drawing);
    draw_axes(drawing);
    draw_legend(drawing);
    (void)fputs("</svg>\n", file);
}

dao_status_t dao_plan_draw(const char *path, const char *title, const dao_plan_input_t *input,
                           const dao_plan_t *plan)
{
    drawing_t drawing = {.input = input, .plan = plan};
    if (input->clock_count > 0) {
        return dao_error(DAO_ERR_UNSUPPORTED, "lives by several clocks cannot be drawn");
    }
    dao_status_t status = dao_plan_report_get(plan, &drawing.report);
    if (status != DAO_OK) {
        return status;
    }
    drawing.cells = dao_host_calloc((size_t)ROW_COUNT * COLUMN_COUNT, sizeof(*drawing.cells));
    if (drawing.cells == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to draw a plan");
    }
    find_scale(&drawing);
    find_side(&drawing);
    drawing.file = dao_out_file_open(path);
    if (drawing.file != NULL) {
        draw(&drawing, title);
        status = dao_out_file_close(drawing.file, path, DAO_OK);
    } else {
        status = DAO_ERR_IO;
    }
    dao_host_free(drawing.cells);
    return status;
}
