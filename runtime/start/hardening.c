/* SPDX-License-Identifier: Apache-2.0 */
/* Hardened places: settings, and access to the bytes of blocks. The host's and pinned memory are accessed
   directly. On a device, bytes are filled, and copied to the host to be checked, on a stream of their own.
   Each such call waits for it. */
#include "runtime/start/hardening.h"

#include "allocators/layers/hardened.h"
#include "allocators/layers/stream_ordered.h"
#include "base/log.h"
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/text/setting.h"

#include <string.h>

/* Bytes that are brought from a device at a time. */
#define PIECE_BYTES 4096u

#define ALL_FLAGS                                                                                            \
    ((uint32_t)(DAO_HARDENING_GUARD | DAO_HARDENING_JUNK | DAO_HARDENING_ZERO | DAO_HARDENING_QUARANTINE |   \
                DAO_HARDENING_CHECKSUM))

/* ---- settings ---- */

/* Reads names with commas between. */
static dao_status_t parse_flags(const char *text, uint32_t *out_flags)
{
    static const struct {
        const char *name;
        dao_hardening_t flag;
    } names[] = {{"guard", DAO_HARDENING_GUARD},
                 {"junk", DAO_HARDENING_JUNK},
                 {"zero", DAO_HARDENING_ZERO},
                 {"quarantine", DAO_HARDENING_QUARANTINE},
                 {"checksum", DAO_HARDENING_CHECKSUM}};
    const size_t name_count = sizeof(names) / sizeof(names[0]);
    uint32_t flags = 0;
    if (strcmp(text, "none") == 0) {
        *out_flags = 0;
        return DAO_OK;
    }
    for (const char *word = text;;) {
        size_t length = strcspn(word, ",");
        size_t i = 0;
        while (i < name_count &&
               (strlen(names[i].name) != length || strncmp(names[i].name, word, length) != 0)) {
            i++;
        }
        if (i == name_count) {
            return dao_error(DAO_ERR_INVALID,
                             "DAO_HARDENING is \"%.64s\"; write none, or names of guard, junk, zero, "
                             "quarantine and checksum with commas between",
                             text);
        }
        flags |= (uint32_t)names[i].flag;
        if (word[length] == '\0') {
            *out_flags = flags;
            return DAO_OK;
        }
        word += length + 1;
    }
}

static dao_status_t quarantine_find(const dao_config_t *config, size_t *out_bytes)
{
    const char *text = dao_setting("DAO_QUARANTINE_BYTES");
    *out_bytes = config->quarantine_bytes != 0 ? config->quarantine_bytes : DAO_QUARANTINE_BYTES_DEFAULT;
    if (config->quarantine_bytes != 0 || text == NULL) {
        return DAO_OK;
    }
    uint64_t bytes = 0;
    dao_status_t status = dao_units_parse_bytes(text, &bytes);
    if (status != DAO_OK) {
        return dao_error(DAO_ERR_INVALID, "the environment's DAO_QUARANTINE_BYTES: %s", dao_last_message());
    }
    *out_bytes = (size_t)bytes;
    return DAO_OK;
}

dao_status_t dao_hardening_flags_check(const char *what, uint32_t flags)
{
    if (flags == DAO_HARDENING_NONE || (flags & ~ALL_FLAGS) == 0) {
        return DAO_OK;
    }
    return dao_error(
        DAO_ERR_INVALID,
        "%s: hardening is 0x%x; its flags are those of dao_hardening_t, DAO_HARDENING_NONE alone", what,
        (unsigned)flags);
}

dao_status_t dao_hardening_find(const dao_config_t *config, dao_core_t *core)
{
    const char *text = dao_setting("DAO_HARDENING");
    dao_status_t status = dao_hardening_flags_check("dao_config_t", config->hardening);
    if (status != DAO_OK) {
        return status;
    }
    core->hardening = config->hardening;
    if (config->hardening == 0 && text != NULL) {
        status = parse_flags(text, &core->hardening);
    }
    return status != DAO_OK ? status : quarantine_find(config, &core->quarantine_bytes);
}

uint32_t dao_hardening_of(dao_core_t *core, dao_place_t place)
{
    uint32_t own = dao_core_config(core, place)->hardening;
    return (own != 0 ? own : core->hardening) & ALL_FLAGS;
}

/* ---- bytes ---- */

/* Returns the offset of the first byte that is not `value`, or size_bytes. */
static size_t first_other(const unsigned char *bytes, uint8_t value, size_t size_bytes)
{
    /* That each is like the next one, memcmp() sees many at a time. */
    if (size_bytes > 0 && bytes[0] == value && memcmp(bytes, bytes + 1, size_bytes - 1) == 0) {
        return size_bytes;
    }
    size_t offset = 0;
    while (offset < size_bytes && bytes[offset] == value) {
        offset++;
    }
    return offset;
}

static dao_status_t host_fill(void *user, void *address, uint8_t value, size_t size_bytes)
{
    (void)user; /* the host is the host */
    memset(address, value, size_bytes);
    return DAO_OK;
}

static dao_status_t host_scan(void *user, const void *address, uint8_t value, size_t size_bytes,
                              size_t *out_offset)
{
    (void)user; /* the host is the host */
    *out_offset = first_other(address, value, size_bytes);
    return DAO_OK;
}

/* Waits for what was queued, if it could be queued. */
static dao_status_t settle(dao_runtime_t *runtime, dao_status_t status)
{
    return dao_runtime_told(
        runtime, status == DAO_OK ? runtime->ops->stream_synchronize(runtime->bytes_stream) : status);
}

static dao_status_t device_fill(void *user, void *address, uint8_t value, size_t size_bytes)
{
    dao_runtime_t *runtime = user;
    return settle(runtime, runtime->ops->fill(runtime->bytes_stream, address, value, size_bytes));
}

static dao_status_t device_scan(void *user, const void *address, uint8_t value, size_t size_bytes,
                                size_t *out_offset)
{
    dao_runtime_t *runtime = user;
    const char *bytes = address;
    unsigned char piece[PIECE_BYTES];
    for (size_t offset = 0; offset < size_bytes; offset += PIECE_BYTES) {
        size_t piece_bytes = size_bytes - offset < PIECE_BYTES ? size_bytes - offset : PIECE_BYTES;
        dao_status_t status = settle(runtime, runtime->ops->copy(runtime->bytes_stream, DAO_COPY_KIND_D2H,
                                                                 piece, bytes + offset, piece_bytes));
        if (status != DAO_OK) {
            return status;
        }
        size_t other = first_other(piece, value, piece_bytes);
        if (other < piece_bytes) {
            *out_offset = offset + other;
            return DAO_OK;
        }
    }
    *out_offset = size_bytes;
    return DAO_OK;
}

dao_status_t dao_hardening_wrap(dao_core_t *core, dao_runtime_t *runtime, dao_place_kind_t kind,
                                dao_allocator_t **allocator)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_place_t place = {kind, runtime != NULL ? runtime->device_index : 0};
    uint32_t flags = dao_hardening_of(core, place);
    if (flags == 0) {
        return DAO_OK;
    }
    dao_hardened_config_t config = {.name = dao_place_format(place, text),
                                    .flags = flags,
                                    .quarantine_bytes = core->quarantine_bytes,
                                    .bytes = {.fill = host_fill, .scan = host_scan}};
    if (kind == DAO_PLACE_KIND_DEVICE) {
        config.bytes = (dao_bytes_t){.fill = device_fill, .scan = device_scan, .user = runtime};
    }
    dao_status_t status = dao_hardened_create(&config, *allocator, allocator);
    return status == DAO_OK && runtime != NULL
               ? dao_stream_ordered_create(runtime->fences, *allocator, allocator)
               : status;
}

/* ---- the report at shutdown ---- */

/* A lost device's bytes cannot be read: nothing is found there. */
static bool is_damaged(dao_allocator_t *allocator)
{
    allocator = dao_stream_ordered_behind(allocator);
    if (!dao_is_hardened(allocator) || dao_hardened_check(allocator) != DAO_ERR_CORRUPT) {
        return false;
    }
    dao_log(DAO_LOG_LEVEL_ERROR, "found at shutdown: %s", dao_last_message());
    return true;
}

uint32_t dao_hardening_report(dao_core_t *core, dao_runtime_t *const *runtimes, int32_t runtime_count)
{
    dao_allocator_t *host_memory = atomic_load(&core->host_memory);
    uint32_t count = host_memory != NULL && is_damaged(host_memory) ? 1 : 0;
    for (int32_t i = 0; i < runtime_count; i++) {
        count += is_damaged(runtimes[i]->pinned_memory) ? 1 : 0;
        count += is_damaged(runtimes[i]->device_memory) ? 1 : 0;
    }
    return count;
}
