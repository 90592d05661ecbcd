/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's pluggable allocator over stream_memory.h, and the statistics that PyTorch cannot take of it. */
#include "integrations/torch/dao_torch.h"

#include "integrations/message.h"
#include "integrations/stats_json.h"
#include "integrations/stream_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char who[] = "dao_torch";

/* A limit that refuses every block; 0 would mean no limit. */
#define NOTHING_BYTES 1

static dao_place_t place_of_device(int device)
{
    return dao_place_of(dao_device_place(device));
}

/* Hooks return nothing, so a failure is printed on the standard error. */
static void report(const char *hook)
{
    (void)fprintf(stderr, "%s: %s: %s\n", who, hook, dao_last_message());
}

void *dao_torch_alloc(size_t size_bytes, int device, void *stream)
{
    void *address = dao_stream_memory_alloc(who, device, size_bytes, stream);
    if (address == NULL) {
        (void)dao_plugin_answer(dao_last_status());
    }
    return address;
}

void dao_torch_free(void *address, size_t size_bytes, int device, void *stream)
{
    (void)size_bytes;
    dao_stream_memory_free(who, device, address, stream);
}

void dao_torch_init(int device_count)
{
    int32_t own_count = 0;
    if (dao_device_count(&own_count) != DAO_OK) {
        report("init");
    } else if (own_count < device_count) {
        (void)fprintf(stderr, "%s: PyTorch has %d devices, the %s backend of libdao %" PRId32 "\n", who,
                      device_count, dao_backend_name(), own_count);
    }
}

void dao_torch_reset(void)
{
    for (int device = 0; device < DAO_DEVICE_COUNT_MAX; device++) {
        if (dao_stream_memory_is_used(device) && dao_trim(place_of_device(device), 0, NULL) != DAO_OK) {
            report("reset");
        }
    }
}

void dao_torch_memory_fraction(double fraction, int device)
{
    dao_device_info_t info;
    if (!(fraction >= 0.0 && fraction <= 1.0)) {
        (void)fprintf(stderr, "%s: memory fraction: %g is not between 0 and 1\n", who, fraction);
        return;
    }
    dao_status_t status = dao_device_query(device, &info);
    if (status == DAO_OK) {
        double part_bytes = fraction * (double)info.total_bytes;
        size_t limit_bytes = part_bytes >= 1.0 ? (size_t)part_bytes : NOTHING_BYTES;
        status = dao_limit_set(place_of_device(device), fraction < 1.0 ? limit_bytes : 0);
    }
    if (status != DAO_OK) {
        report("memory fraction");
    }
}

/* Finds the segment of a snapshot around an address. */
static bool segment_find(const dao_snapshot_t *snapshot, const void *address, void **out_base,
                         size_t *out_size_bytes)
{
    size_t count;
    const dao_snapshot_segment_t *segments = dao_snapshot_segments(snapshot, &count);
    for (size_t i = 0; i < count; i++) {
        if ((uintptr_t)address - segments[i].address < segments[i].size_bytes) {
            *out_base = (void *)(uintptr_t)segments[i].address;
            *out_size_bytes = segments[i].size_bytes;
            return true;
        }
    }
    return false;
}

void *dao_torch_base_alloc(void *address, size_t *out_size_bytes)
{
    void *base = NULL;
    size_t size_bytes = 0;
    for (int device = 0; device < DAO_DEVICE_COUNT_MAX && base == NULL; device++) {
        dao_snapshot_t *snapshot;
        if (!dao_stream_memory_is_used(device)) {
            continue;
        }
        if (dao_snapshot_create(place_of_device(device), &snapshot) != DAO_OK) {
            report("base allocation");
            continue;
        }
        (void)segment_find(snapshot, address, &base, &size_bytes);
        dao_snapshot_destroy(snapshot);
    }
    if (out_size_bytes != NULL) {
        *out_size_bytes = size_bytes;
    }
    return base;
}

void dao_torch_record_stream(void *address, void *stream)
{
    if (address != NULL && !dao_stream_memory_record(address, stream)) {
        (void)fprintf(stderr, "%s: record stream: %p was not allocated here\n", who, address);
    }
}

/* ---- statistics ---- */

size_t dao_torch_memory_stats(int device, char *out_text, size_t text_bytes)
{
    size_t length = dao_stats_json_write(place_of_device(device), out_text, text_bytes);
    if (length == 0) {
        (void)dao_plugin_answer(dao_last_status());
    }
    return length;
}

int dao_torch_reset_peaks(int device)
{
    return dao_plugin_answer(dao_stats_reset_peaks(place_of_device(device)));
}

static dao_status_t write_to_file(const char *text, size_t text_bytes, void *user)
{
    return fwrite(text, 1, text_bytes, user) == text_bytes ? DAO_OK : DAO_ERR_IO;
}

/* Writes a snapshot into an open file and closes it. */
static int snapshot_write(const dao_snapshot_t *snapshot, FILE *file, const char *path)
{
    dao_status_t status = dao_snapshot_write_pickle(snapshot, write_to_file, file);
    int reason = errno;
    if (fclose(file) != 0 && status == DAO_OK) {
        reason = errno;
        status = DAO_ERR_IO;
    }
    return status == DAO_ERR_IO ? dao_plugin_fail(status, "dao_torch_snapshot: \"%s\" is not whole: %s", path,
                                                  strerror(reason))
                                : dao_plugin_answer(status);
}

int dao_torch_snapshot(int device, const char *path)
{
    dao_snapshot_t *snapshot;
    if (path == NULL) {
        return dao_plugin_fail(DAO_ERR_INVALID, "dao_torch_snapshot: the path is NULL");
    }
    dao_status_t status = dao_snapshot_create(place_of_device(device), &snapshot);
    if (status != DAO_OK) {
        return dao_plugin_answer(status);
    }
    FILE *file = fopen(path, "wb");
    int answer = file != NULL ? snapshot_write(snapshot, file, path)
                              : dao_plugin_fail(DAO_ERR_IO, "dao_torch_snapshot: \"%s\" is not opened: %s",
                                                path, strerror(errno));
    dao_snapshot_destroy(snapshot);
    return answer;
}

const char *dao_torch_last_message(void)
{
    return dao_plugin_message();
}
