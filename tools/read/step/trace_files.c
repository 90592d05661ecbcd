/* SPDX-License-Identifier: Apache-2.0 */
/* Looks into the trace's folder once for the model and once for the batch. Names are built in buffers of
   fixed size; what does not fit is refused. Each file may be packed by gzip: its name ends in ".gz" then. */
#define _GNU_SOURCE
#include "tools/read/step/trace_files.h"

#include "base/report/error.h"
#include "base/report/format.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LISTED_BYTES = 160 };

static const char io_suffix[] = ".io_info.json";
static const char size_suffix[] = ".tensor_size.json";
static const char packed_suffix[] = ".gz";

/* What a folder has between a prefix and a suffix: how many, the first, and a list for messages. */
typedef struct matches {
    size_t count;
    char first[128];
    char list[LISTED_BYTES];
} matches_t;

static bool ends_with(const char *text, size_t length, const char *suffix)
{
    size_t suffix_length = strlen(suffix);
    return length > suffix_length && memcmp(text + length - suffix_length, suffix, suffix_length) == 0;
}

/* The length of a file's name without what says that it is packed. */
static size_t plain_length(const char *name)
{
    size_t length = strlen(name);
    return ends_with(name, length, packed_suffix) ? length - strlen(packed_suffix) : length;
}

static void add_match(matches_t *matches, const char *middle, size_t length)
{
    size_t used = strlen(matches->list);
    int most = length < 60 ? (int)length : 60;
    if (matches->count == 0 && length < sizeof(matches->first)) {
        memcpy(matches->first, middle, length);
        matches->first[length] = '\0';
    }
    if (used + (size_t)most + 8 < LISTED_BYTES) {
        (void)snprintf(matches->list + used, LISTED_BYTES - used, "%s%.*s", used > 0 ? ", " : "", most,
                       middle);
    } else if (!ends_with(matches->list, used, "...")) {
        (void)snprintf(matches->list + used, LISTED_BYTES - used, ", ...");
    }
    matches->count++;
}

static dao_status_t look_into(const char *folder, const char *prefix, const char *suffix,
                              matches_t *out_matches)
{
    *out_matches = (matches_t){0};
    DIR *listing = opendir(folder);
    if (listing == NULL) {
        return dao_error(DAO_ERR_IO, "%.200s: %s", folder, strerror(errno));
    }
    size_t prefix_length = strlen(prefix);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(listing);
        if (entry == NULL) {
            break;
        }
        size_t length = plain_length(entry->d_name);
        if (strncmp(entry->d_name, prefix, prefix_length) == 0 && ends_with(entry->d_name, length, suffix) &&
            length > prefix_length + strlen(suffix)) {
            add_match(out_matches, entry->d_name + prefix_length, length - prefix_length - strlen(suffix));
        }
    }
    int error = errno;
    (void)closedir(listing); /* it was only read */
    return error == 0 ? DAO_OK : dao_error(DAO_ERR_IO, "%.200s: %s", folder, strerror(error));
}

static dao_status_t too_long(const char *path)
{
    return dao_error(DAO_ERR_INVALID, "%.200s: this path or a name in it is too long", path);
}

/* Splits MODEL off a path that ends in `/MODEL.io_info.json`, and gives the folder before it. */
static dao_status_t split_path(const char *path, char folder[DAO_TRACE_PATH_BYTES], dao_trace_files_t *files)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t folder_length = (size_t)(name - path);
    size_t model_length = plain_length(name) - strlen(io_suffix);
    if (model_length >= sizeof(files->model) || folder_length + 2 > DAO_TRACE_PATH_BYTES) {
        return too_long(path);
    }
    memcpy(files->model, name, model_length);
    files->model[model_length] = '\0';
    (void)snprintf(folder, DAO_TRACE_PATH_BYTES, "%.*s", folder_length > 0 ? (int)folder_length : 2,
                   folder_length > 0 ? path : "./");
    return DAO_OK;
}

static dao_status_t find_model(const char *path, char folder[DAO_TRACE_PATH_BYTES], dao_trace_files_t *files)
{
    struct stat about;
    if (stat(path, &about) != 0) {
        return dao_error(DAO_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(about.st_mode)) {
        if (!ends_with(path, plain_length(path), io_suffix)) {
            return dao_error(
                DAO_ERR_INVALID,
                "%.200s: a step is a folder or a file whose name ends in \"%s\", or .tr or .jsonl", path,
                io_suffix);
        }
        return split_path(path, folder, files);
    }
    if (strlen(path) + 2 > DAO_TRACE_PATH_BYTES) {
        return too_long(path);
    }
    (void)snprintf(folder, DAO_TRACE_PATH_BYTES, "%s/", path);
    matches_t models;
    dao_status_t status = look_into(path, "", io_suffix, &models);
    if (status != DAO_OK) {
        return status;
    }
    if (models.count == 0) {
        return dao_error(
            DAO_ERR_IO,
            "%.200s: this folder is no step in four JSON files: there is no file in it whose name ends in "
            "\"%s\"; other files are named one by one",
            path, io_suffix);
    }
    if (models.count > 1) {
        return dao_error(DAO_ERR_INVALID, "%.200s: there are several traces (%s); name one's *%s", path,
                         models.list, io_suffix);
    }
    if (models.first[0] == '\0') {
        return too_long(path);
    }
    memcpy(files->model, models.first, sizeof(files->model));
    return DAO_OK;
}

static dao_status_t find_batch(const char *folder, const char *batch, dao_trace_files_t *files)
{
    char prefix[sizeof(files->model) + 1];
    (void)snprintf(prefix, sizeof(prefix), "%s.", files->model);
    matches_t batches = {.count = 1};
    dao_status_t status = DAO_OK;
    if (batch == NULL) {
        status = look_into(folder, prefix, size_suffix, &batches);
        batch = batches.first;
    }
    if (status != DAO_OK) {
        return status;
    }
    if (batches.count == 0) {
        return dao_error(DAO_ERR_IO, "%.200s: %s.io_info.json has no %s.BATCH%s beside it", folder,
                         files->model, files->model, size_suffix);
    }
    if (batches.count > 1) {
        return dao_error(DAO_ERR_INVALID, "%.200s: there are several batches (%s); choose one with --batch",
                         folder, batches.list);
    }
    if (batch[0] == '\0' || strlen(batch) >= sizeof(files->batch) || strchr(batch, '/') != NULL) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no batch", batch);
    }
    memcpy(files->batch, batch, strlen(batch) + 1);
    return DAO_OK;
}

/* Puts a name together; where there is no such file but a packed one, that one's. */
DAO_PRINTF(2, 3)
static bool build_name(char out_path[DAO_TRACE_PATH_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out_path, DAO_TRACE_PATH_BYTES, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length + sizeof(packed_suffix) > DAO_TRACE_PATH_BYTES) {
        return false;
    }
    if (access(out_path, F_OK) != 0) {
        memcpy(out_path + length, packed_suffix, sizeof(packed_suffix));
        if (access(out_path, F_OK) != 0) {
            out_path[length] = '\0'; /* whoever opens it will say that it is missing */
        }
    }
    return true;
}

dao_status_t dao_trace_files_find(const char *path, const char *batch, dao_trace_files_t *out_files)
{
    char folder[DAO_TRACE_PATH_BYTES];
    memset(out_files, 0, sizeof(*out_files));
    dao_status_t status = find_model(path, folder, out_files);
    if (status == DAO_OK) {
        status = find_batch(folder, batch, out_files);
    }
    if (status != DAO_OK) {
        return status;
    }
    const char *model = out_files->model;
    batch = out_files->batch;
    return build_name(out_files->io_info, "%s%s%s", folder, model, io_suffix) &&
                   build_name(out_files->tensor_size, "%s%s.%s%s", folder, model, batch, size_suffix) &&
                   build_name(out_files->resize_info, "%s%s.%s.resize_info.json", folder, model, batch) &&
                   build_name(out_files->cost_info, "%s%s.%s.cost_info.json", folder, model, batch)
               ? DAO_OK
               : too_long(path);
}
