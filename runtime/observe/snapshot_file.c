/* SPDX-License-Identifier: Apache-2.0 */
/* In the names of files %n counts from 1. A snapshot is a pickle for PyTorch's viewer. Failures are logged,
   since there is no caller to return them to. */
#include "runtime/observe/snapshot_file.h"

#include "base/log.h"
#include "base/memory/descriptor.h"
#include "base/report/error.h"
#include "base/text/setting.h"
#include "base/threads/signal_flag.h"
#include "base/threads/size_signal.h"
#include "base/threads/sync.h"
#include "runtime/observe/snapshot.h"
#include "runtime/recording/file_name.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ON_OOM_PREFIX       "snapshot:"
#define SIGNAL_FILE_DEFAULT "dao-%p-%n-%l.pickle"

static struct {
    char refusal_file[DAO_FILE_NAME_BYTES]; /* "": nothing is written */
    char signal_file[DAO_FILE_NAME_BYTES];
    int signal; /* 0: none */
    _Atomic uint32_t refusal_count;
    _Atomic uint32_t signal_count;
} settings;

/* ---- settings ---- */

dao_status_t dao_snapshot_file_find(void)
{
    const char *on_oom = dao_setting("DAO_ON_OOM");
    const char *signal = dao_setting("DAO_SNAPSHOT_SIGNAL");
    const char *file = dao_setting("DAO_SNAPSHOT_FILE");
    size_t prefix_length = sizeof(ON_OOM_PREFIX) - 1;
    settings.refusal_file[0] = '\0';
    settings.signal = 0;
    atomic_store(&settings.refusal_count, 0);
    dao_status_t status = DAO_OK;
    if (on_oom != NULL && strncmp(on_oom, ON_OOM_PREFIX, prefix_length) != 0) {
        return dao_error(DAO_ERR_INVALID, "DAO_ON_OOM is \"%.64s\"; write " ON_OOM_PREFIX "FILE", on_oom);
    }
    if (on_oom != NULL) {
        status = dao_file_name_keep("DAO_ON_OOM", on_oom + prefix_length, "pnl", settings.refusal_file);
    }
    if (status == DAO_OK && signal != NULL) {
        settings.signal = dao_signal_number(signal);
        if (settings.signal == 0) {
            return dao_error(DAO_ERR_INVALID,
                             "DAO_SNAPSHOT_SIGNAL is \"%.64s\"; write USR1, USR2, HUP or "
                             "WINCH",
                             signal);
        }
        status = dao_file_name_keep("DAO_SNAPSHOT_FILE", file != NULL ? file : SIGNAL_FILE_DEFAULT, "pnl",
                                    settings.signal_file);
    }
    return status;
}

/* ---- writing ---- */

static dao_status_t put(const char *bytes, size_t count, void *user)
{
    return fwrite(bytes, 1, count, user) == count ? DAO_OK : DAO_ERR_IO;
}

static dao_status_t snapshot_write(dao_place_t place, dao_allocator_t *allocator, const char *path)
{
    dao_snapshot_t *snapshot;
    dao_size_signal_t held;
    dao_status_t status = dao_snapshot_take(place, allocator, &snapshot);
    if (status != DAO_OK) {
        return status;
    }
    dao_size_signal_hold(&held);
    FILE *file = dao_descriptor_fopen(path);
    if (file == NULL) {
        status = dao_error(DAO_ERR_IO, "%s: %s", path, strerror(errno));
    } else {
        status = dao_snapshot_write_pickle(snapshot, put, file);
        int error = dao_descriptor_fclose(file, status == DAO_OK);
        if (error != 0 && (status == DAO_OK || status == DAO_ERR_IO)) {
            status = dao_error(DAO_ERR_IO, "%s: it could not be written: %s", path, strerror(error));
        }
    }
    dao_size_signal_release(&held);
    dao_snapshot_destroy(snapshot);
    return status;
}

/* Writes a snapshot and logs what became of it. The log's callback may call the library. */
static void snapshot_log(dao_place_t place, dao_allocator_t *allocator, const char *file, uint32_t number)
{
    char path[DAO_FILE_NAME_BYTES], text[DAO_PLACE_TEXT_BYTES];
    (void)dao_place_format(place, text);
    dao_status_t status = dao_file_name_make(file, place, number, path)
                              ? snapshot_write(place, allocator, path)
                              : dao_error(DAO_ERR_INVALID, "the name of its file is too long");
    if (status == DAO_OK) {
        dao_log(DAO_LOG_LEVEL_WARNING, "a snapshot of %s is in %s", text, path);
    } else {
        dao_log(DAO_LOG_LEVEL_WARNING, "there is no snapshot of %s: %s", text, dao_last_message());
    }
}

/* What is called for a snapshot may itself be refused memory by the library. */
static _Thread_local bool is_writing;

void dao_snapshot_note_refusal(dao_place_t place, dao_allocator_t *allocator)
{
    if (settings.refusal_file[0] == '\0' || is_writing) {
        return;
    }
    uint32_t most = strstr(settings.refusal_file, "%n") != NULL ? DAO_SNAPSHOT_REFUSAL_COUNT_MAX : 1;
    uint32_t number = atomic_load(&settings.refusal_count);
    while (number < most && !atomic_compare_exchange_weak(&settings.refusal_count, &number, number + 1)) {
    }
    if (number < most) {
        dao_error_record_t record;
        dao_error_save(&record, DAO_ERR_LIMIT);
        is_writing = true;
        snapshot_log(place, allocator, settings.refusal_file, number + 1);
        is_writing = false;
        (void)dao_error_restore(&record); /* the caller hands on its own status */
    }
}

/* ---- the signal ---- */

void dao_snapshot_signal_begin(void)
{
    if (settings.signal != 0 && !dao_signal_flag_begin(settings.signal)) {
        dao_log(DAO_LOG_LEVEL_WARNING,
                "DAO_SNAPSHOT_SIGNAL: the program has a handler of its own for this signal, which stays");
        settings.signal = 0;
    }
}

void dao_snapshot_signal_end(void)
{
    if (settings.signal != 0) {
        dao_signal_flag_end(settings.signal);
        settings.signal = 0;
    }
}

bool dao_snapshot_signal_is_on(void)
{
    return settings.signal != 0;
}

bool dao_snapshot_signal_take(void)
{
    bool has_come = settings.signal != 0 && dao_signal_flag_take();
    if (has_come) {
        atomic_fetch_add(&settings.signal_count, 1);
    }
    return has_come;
}

void dao_snapshot_signal_write(dao_place_t place, dao_allocator_t *allocator)
{
    snapshot_log(place, allocator, settings.signal_file, atomic_load(&settings.signal_count));
}
