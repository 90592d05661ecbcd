/* SPDX-License-Identifier: Apache-2.0 */
/* One profile of the type "sampled": a sample a buffer, whose stack is

       parts of the module, or the calls that made it | operator | tag, or what kind it is | buffer

   and whose weight is its bytes. Frames are told once. Form: speedscope's file-format-schema.json. */
#include "tools/report/flame.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/text/printable.h"
#include "tools/write/put_text.h"

#include <inttypes.h>
#include <string.h>

/* Longer names are cut; deeper stacks, too. */
enum { FRAME_BYTES = 256, STACK_COUNT_MAX = 128 };

typedef struct flame {
    FILE *file;
    const dao_report_view_t *view;
    dao_id_map_t frames; /* name -> its number */
    uint64_t stack[STACK_COUNT_MAX];
    size_t depth;
    bool writes_frames; /* the first pass writes frames as they are found, the second samples */
} flame_t;

static dao_status_t push_frame(flame_t *flame, const char *text, size_t length)
{
    char name[FRAME_BYTES];
    uint64_t number = flame->frames.count;
    bool is_known = false;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(length < FRAME_BYTES ? length : FRAME_BYTES - 1), text);
    dao_make_printable(name);
    if (*name == '\0' || flame->depth == STACK_COUNT_MAX) {
        return DAO_OK;
    }
    dao_status_t status = dao_id_map_add(&flame->frames, name, strlen(name), number, &is_known, &number);
    if (status == DAO_OK && !is_known && flame->writes_frames) {
        (void)fputs(number > 0 ? ",\n{\"name\":" : "\n{\"name\":", flame->file);
        dao_put_json(flame->file, name);
        (void)fputc('}', flame->file);
    }
    flame->stack[flame->depth++] = number;
    return status;
}

static dao_status_t push_parts(flame_t *flame, const char *module)
{
    const char *between = dao_plan_module_between(module);
    dao_status_t status = DAO_OK;
    for (const char *at = module; *at != '\0' && status == DAO_OK;) {
        size_t length = strcspn(at, between);
        status = push_frame(flame, at, length);
        at += length + (at[length] != '\0' ? 1 : 0);
    }
    return status;
}

static dao_status_t push_buffer(flame_t *flame, uint32_t buffer)
{
    const dao_report_view_t *view = flame->view;
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    const dao_report_groups_t *kinds = &view->groups[DAO_REPORT_GROUPING_KIND];
    dao_plan_label_t label = dao_plan_input_label(lifetimes, buffer);
    const char *maker = dao_plan_input_text(lifetimes, label.maker);
    const char *tag = dao_plan_input_text(lifetimes, label.tag);
    char number[DAO_PLAN_INPUT_NUMBER_BYTES];
    const char *id = dao_plan_input_id(lifetimes, buffer, number);
    flame->depth = 0;
    dao_status_t status = push_parts(flame, dao_plan_input_text(lifetimes, label.module));
    status = status == DAO_OK ? push_frame(flame, maker, strlen(maker)) : status;
    tag = *tag != '\0' ? tag : kinds->names[kinds->of[buffer]];
    status = status == DAO_OK ? push_frame(flame, tag, strlen(tag)) : status;
    return status == DAO_OK ? push_frame(flame, id, strlen(id)) : status;
}

static void write_stack(const flame_t *flame, bool is_first)
{
    (void)fputs(is_first ? "\n[" : ",\n[", flame->file);
    for (size_t i = 0; i < flame->depth; i++) {
        (void)fprintf(flame->file, "%s%" PRIu64, i > 0 ? "," : "", flame->stack[i]);
    }
    (void)fputc(']', flame->file);
}

static dao_status_t write_profile(flame_t *flame, const uint32_t *holders, size_t count)
{
    const dao_report_view_t *view = flame->view;
    dao_status_t status = DAO_OK;
    flame->writes_frames = true;
    (void)fputs(
        "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"dao report\","
        "\"name\":",
        flame->file);
    dao_put_json(flame->file, view->path);
    (void)fputs(",\"activeProfileIndex\":0,\"shared\":{\"frames\":[", flame->file);
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        status = push_buffer(flame, holders[i]);
    }
    (void)fprintf(
        flame->file,
        "\n]},\"profiles\":[{\"type\":\"sampled\",\"name\":\"alive at the peak\",\"unit\":\"bytes\","
        "\"startValue\":0,\"endValue\":%" PRIu64 ",\"samples\":[",
        view->peak_bytes);
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        status = push_buffer(flame, holders[i]);
        write_stack(flame, i == 0);
    }
    (void)fputs("\n],\"weights\":[", flame->file);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(flame->file, "%s%" PRIu64, i > 0 ? "," : "",
                      view->lifetimes.buffers[holders[i]].size_bytes);
    }
    (void)fputs("]}]}\n", flame->file);
    return status;
}

dao_status_t dao_report_flame_write(FILE *file, const dao_report_view_t *view)
{
    flame_t *flame = dao_host_calloc(1, sizeof(*flame));
    size_t count = 0;
    uint32_t *holders = dao_report_view_holders(view, &count);
    dao_status_t status = flame != NULL && holders != NULL
                              ? DAO_OK
                              : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the holders of the peak");
    if (status == DAO_OK) {
        flame->file = file;
        flame->view = view;
        dao_id_map_init(&flame->frames);
        status = write_profile(flame, holders, count);
        dao_id_map_finish(&flame->frames);
    }
    dao_host_free(holders);
    dao_host_free(flame);
    return status;
}
