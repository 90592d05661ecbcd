/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of CSV:

       time_ns,event,place,address,bytes,tag,stream
       81234567890,alloc,device:0,0x700000000000,1024,weights,2
       81234569001,step,device:0,0x0,0,,0

   The file is opened for appending, and each line is one write, so lines of several threads stay whole
   without a lock, and nothing is lost with the process. A line may come after one that is later: readers sort
   by time, by which a block's free is before its next allocation. The first failure ends the recording: a
   file with gaps would give wrong lives. */
#define _GNU_SOURCE
#include "runtime/recording/recording.h"

#include "allocators/accounting/tag_names.h"
#include "base/log.h"
#include "base/memory/descriptor.h"
#include "base/report/error.h"
#include "base/text/setting.h"
#include "base/threads/size_signal.h"
#include "base/threads/sync.h"
#include "runtime/recording/file_name.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER "time_ns,event,place,address,bytes,tag,stream\n"

/* Room for a line: a tag and the rest. */
#define LINE_BYTES (2 * DAO_TAG_NAME_BYTES + 256)

enum { NO_FILE = -1 };

static struct {
    _Atomic int file;  /* NO_FILE: nothing is written */
    _Atomic int error; /* why the writing has ended; 0 if it has not, or that was told */
    char path[DAO_FILE_NAME_BYTES];
    dev_t device; /* of the file, as the inode: set before its descriptor is */
    ino_t inode;
} recording = {.file = NO_FILE};

/* ---- the file ---- */

/* Writes a text at the end of the file. Returns false with errno if that has no room for all of it. */
static bool text_write(int file, const char *text, size_t length)
{
    dao_size_signal_t held;
    dao_size_signal_hold(&held);
    ssize_t written = write(file, text, length);
    if (written > 0 && (size_t)written < length) { /* a second write says why, or there is room again */
        ssize_t rest = write(file, text + written, length - (size_t)written);
        written = rest < 0 ? rest : written + rest;
    }
    dao_size_signal_release(&held);
    return written == (ssize_t)length;
}

/* Opens the file for this process alone: lines of two would be mixed. No pipe, ESPIPE: without a reader it
   would not open, and with one that goes a line would end the process. */
static int file_open(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat about;
    int file = dao_descriptor_keep(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
    if (file == NO_FILE) {
        errno = errno == ENXIO ? ESPIPE : errno;
        return NO_FILE;
    }
    if (fstat(file, &about) != 0 || S_ISFIFO(about.st_mode)) {
        (void)close(file);
        errno = ESPIPE;
        return NO_FILE;
    }
    bool is_ours = fcntl(file, F_SETLK, &lock) == 0;
    bool is_taken = !is_ours && (errno == EAGAIN || errno == EACCES);
    bool is_empty = !is_taken && (ftruncate(file, 0) == 0 || errno == EINVAL); /* EINVAL: of a device */
    if (is_empty && text_write(file, HEADER, sizeof(HEADER) - 1)) {
        recording.device = about.st_dev;
        recording.inode = about.st_ino;
        return file;
    }
    int error = is_taken ? EBUSY : errno;
    (void)close(file); /* nothing was written to it */
    errno = error;
    return NO_FILE;
}

static const char *reason_of(int error)
{
    return error == EBUSY    ? "another process records there; write %p, the process, into the name"
           : error == EBADF  ? "the program has closed its descriptor, or put a file of its own there"
           : error == ESPIPE ? "it is a pipe; name a file"
                             : strerror(error);
}

dao_status_t dao_recording_find(bool *out_begins)
{
    char name[DAO_FILE_NAME_BYTES];
    const char *text = dao_setting("DAO_RECORD");
    *out_begins = false;
    if (text == NULL || atomic_load(&recording.file) != NO_FILE) {
        return DAO_OK;
    }
    dao_status_t status = dao_file_name_keep("DAO_RECORD", text, "p", name);
    if (status != DAO_OK) {
        return status;
    }
    bool is_path = dao_file_name_make(name, (dao_place_t){0}, 0, recording.path);
    errno = ENAMETOOLONG;
    int file = is_path ? file_open(recording.path) : NO_FILE;
    if (file == NO_FILE) {
        dao_log(DAO_LOG_LEVEL_ERROR, "nothing is recorded: DAO_RECORD: \"%s\": %s", text, reason_of(errno));
        return DAO_OK;
    }
    (void)dao_ticks_to_ns(dao_ticks()); /* the rate is measured now, and not by an allocation */
    atomic_store(&recording.file, file);
    *out_begins = true;
    return DAO_OK;
}

void dao_recording_forked(void)
{
    atomic_store(&recording.file, NO_FILE); /* the descriptor goes with an exec, or with the child */
}

/* ---- lines ---- */

/* Room for a tag's name, each letter of which may be a quotation mark. */
#define FIELD_BYTES (2 * DAO_TAG_NAME_BYTES + 2)

/* Writes a name of a tag as a field of CSV, in quotes if need be. */
static void field_write(const char *text, char out_field[FIELD_BYTES])
{
    bool is_quoted = strpbrk(text, ",\"") != NULL;
    size_t length = 0;
    if (is_quoted) {
        out_field[length++] = '"';
    }
    for (; *text != '\0'; text++) {
        out_field[length++] = *text;
        if (*text == '"') {
            out_field[length++] = '"';
        }
    }
    if (is_quoted) {
        out_field[length++] = '"';
    }
    DAO_ASSERT(length < FIELD_BYTES);
    out_field[length] = '\0';
}

/* Returns whether the descriptor is of the file that was opened: what closes all descriptors, as a daemon at
   its start, takes it away, and the next file of the program has its number. */
static bool is_still_there(int file)
{
    struct stat now;
    if (fstat(file, &now) == 0 && now.st_ino == recording.inode && now.st_dev == recording.device) {
        return true;
    }
    errno = EBADF;
    return false;
}

static void line_write(const char *event, const dao_noted_t *noted)
{
    char line[LINE_BYTES], place[DAO_PLACE_TEXT_BYTES], tag[FIELD_BYTES] = "";
    int file = atomic_load_explicit(&recording.file, memory_order_acquire);
    if (file == NO_FILE) {
        return;
    }
    int error = errno;
    const char *tag_name = dao_tag_names_get(noted->tag);
    if (tag_name != NULL) {
        field_write(tag_name, tag);
    }
    int length = snprintf(line, sizeof(line), "%" PRIu64 ",%s,%s,0x%" PRIxPTR ",%zu,%s,%u\n",
                          dao_ticks_to_ns(noted->ticks), event, dao_place_format(noted->place, place),
                          (uintptr_t)noted->address, noted->size_bytes, tag, noted->stream);
    bool is_written = is_still_there(file) && text_write(file, line, (size_t)length);
    if (!is_written && atomic_exchange(&recording.file, NO_FILE) != NO_FILE) {
        atomic_store(&recording.error, errno);
    }
    errno = error;
}

void dao_recording_note(const dao_noted_t *noted)
{
    static const char *const events[] = {[DAO_MEMORY_EVENT_KIND_ALLOC] = "alloc",
                                         [DAO_MEMORY_EVENT_KIND_FREE] = "free",
                                         [DAO_MEMORY_EVENT_KIND_ALLOC_FAILED] = "refused",
                                         [DAO_MEMORY_EVENT_KIND_TRIM] = "trim"};
    line_write(events[noted->kind], noted);
}

void dao_recording_note_step(dao_place_t place)
{
    line_write("step", &(dao_noted_t){.place = place, .ticks = dao_ticks()});
}

void dao_recording_tell(void)
{
    int error = atomic_load_explicit(&recording.error, memory_order_relaxed);
    if (error != 0 && atomic_exchange(&recording.error, 0) != 0) {
        dao_log(DAO_LOG_LEVEL_ERROR, "the recording in \"%s\" ends here, what follows is not in it: %s",
                recording.path, reason_of(error));
    }
}
