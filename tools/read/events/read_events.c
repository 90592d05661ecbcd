/* SPDX-License-Identifier: Apache-2.0 */
/* One row a form. Our own form has one device, whose file becomes a log of one. */
#include "tools/read/events/read_events.h"

#include "base/report/error.h"
#include "tools/read/events/read_event_file.h"
#include "tools/read/foreign/foreign.h"

#include <stdio.h>

enum { DEVICE_LIST_BYTES = 160 };

typedef dao_status_t (*read_t)(const char *path, dao_life_log_t *log);

static dao_status_t read_own(const char *path, dao_life_log_t *log)
{
    dao_event_file_t file;
    uint32_t device = 0;
    dao_status_t status = dao_event_file_read(path, &file);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_life_log_device(log, "0", &device);
    if (status != DAO_OK) {
        dao_event_file_finish(&file);
        return status;
    }
    dao_event_file_finish(&log->devices[device].events);
    log->devices[device].events = file;
    return DAO_OK;
}

static const struct {
    dao_file_form_t form;
    read_t read;
} readers[] = {
    {DAO_FILE_FORM_EVENTS, read_own},
    {DAO_FILE_FORM_SNAPSHOT, dao_read_snapshot},
    {DAO_FILE_FORM_CHROME_TRACE, dao_read_chrome_trace},
    {DAO_FILE_FORM_MEMORY_TIMELINE, dao_read_memory_timeline},
    {DAO_FILE_FORM_RMM, dao_read_rmm},
    {DAO_FILE_FORM_UMPIRE, dao_read_umpire},
    {DAO_FILE_FORM_ROCPROF, dao_read_rocprof},
    {DAO_FILE_FORM_NSYS, dao_read_nsys},
    {DAO_FILE_FORM_SIZE_LIST, dao_read_size_list},
    {DAO_FILE_FORM_RECORDING, dao_read_recording},
};

static read_t find_reader(dao_file_form_t form)
{
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        if (readers[i].form == form) {
            return readers[i].read;
        }
    }
    return NULL;
}

static dao_status_t read_log(const char *path, bool keeps_labels, dao_life_log_t *out_log)
{
    dao_file_form_t form = DAO_FILE_FORM_EVENTS;
    dao_status_t status = dao_recognise(path, &form);
    if (status != DAO_OK) {
        return status;
    }
    read_t read = find_reader(form);
    if (read == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "%.200s: this is %s, which has no events of allocations; dao convert FILE -o "
                         "OUT.events.csv makes them",
                         path, dao_file_form_name(form));
    }
    dao_life_log_init(out_log);
    out_log->keeps_labels = keeps_labels;
    status = read(path, out_log);
    if (status == DAO_OK) {
        status = dao_life_log_close(out_log);
    }
    if (status == DAO_OK && out_log->device_count == 0) {
        status = dao_error(DAO_ERR_PARSE, "%.200s: no event in it is one of memory", path);
    }
    if (status != DAO_OK) {
        dao_life_log_finish(out_log);
    }
    return status;
}

dao_status_t dao_read_event_log(const char *path, dao_life_log_t *out_log)
{
    return read_log(path, false, out_log);
}

/* Says which devices there are. */
static dao_status_t miss_device(const dao_life_log_t *log, const char *path, const char *device)
{
    char names[DEVICE_LIST_BYTES] = "";
    size_t length = 0;
    for (size_t i = 0; i < log->device_count && length + DAO_LIFE_DEVICE_NAME_BYTES < sizeof(names); i++) {
        length += (size_t)snprintf(names + length, sizeof(names) - length, " %s", log->devices[i].name);
    }
    return dao_error(DAO_ERR_INVALID, "%.200s: no device %.40s; there are:%s", path, device, names);
}

dao_status_t dao_life_log_choose(const dao_life_log_t *log, const char *path, const char *device,
                                 const dao_life_device_t **out_device)
{
    *out_device = dao_life_log_find(log, device);
    return *out_device != NULL ? DAO_OK : miss_device(log, path, device);
}

static dao_status_t read_device(const char *path, const char *device, bool keeps_labels,
                                dao_event_file_t *out_file)
{
    dao_life_log_t log;
    const dao_life_device_t *found = NULL;
    dao_status_t status = read_log(path, keeps_labels, &log);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_life_log_choose(&log, path, device, &found);
    if (status == DAO_OK) { /* the log keeps an empty file */
        *out_file = found->events;
        dao_event_file_init(&log.devices[found - log.devices].events);
    }
    dao_life_log_finish(&log);
    return status;
}

dao_status_t dao_read_events(const char *path, const char *device, dao_event_file_t *out_file)
{
    return read_device(path, device, false, out_file);
}

dao_status_t dao_read_labelled_events(const char *path, const char *device, dao_event_file_t *out_file)
{
    return read_device(path, device, true, out_file);
}
