/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of hardened blocks: how many a block has, what they are filled with, and whether they still are.
   Reached without the lock. */
#include "allocators/layers/hardened_internal.h"

#include "base/numbers/math.h"
#include "base/report/error.h"

size_t dao_hardened_padded_bytes(const hardened_t *hardened, size_t size_bytes)
{
    if (!dao_hardened_has(hardened, DAO_HARDENING_GUARD) ||
        size_bytes > PTRDIFF_MAX - 2 * DAO_HARDENED_GUARD_BYTES) {
        return size_bytes;
    }
    return (size_t)dao_round_up(size_bytes, DAO_HARDENED_GUARD_BYTES) + DAO_HARDENED_GUARD_BYTES;
}

static uint8_t freed_value(const hardened_t *hardened)
{
    return dao_hardened_has(hardened, DAO_HARDENING_ZERO) ? 0 : DAO_HARDENED_FREED_VALUE;
}

/* Returns true if freed bytes are set to freed_value(): a quarantine has to know what it will find. */
static bool fills_freed(const hardened_t *hardened)
{
    return (hardened->flags & (DAO_HARDENING_JUNK | DAO_HARDENING_ZERO | DAO_HARDENING_QUARANTINE)) != 0;
}

dao_status_t dao_hardened_bytes_prepare(const hardened_t *hardened, char *address, size_t size_bytes)
{
    const dao_bytes_t *bytes = &hardened->bytes;
    size_t guard_bytes = dao_hardened_padded_bytes(hardened, size_bytes) - size_bytes;
    dao_status_t status = DAO_OK;
    if (dao_hardened_has(hardened, DAO_HARDENING_JUNK)) {
        status = bytes->fill(bytes->user, address, DAO_HARDENED_JUNK_VALUE, size_bytes);
    }
    if (status == DAO_OK && guard_bytes > 0) {
        status = bytes->fill(bytes->user, address + size_bytes, DAO_HARDENED_GUARD_VALUE, guard_bytes);
    }
    return status;
}

/* Finds the first wrong byte of [begin, end) of a block; *out_offset counts from its start. DAO_ERR_CORRUPT,
   without a message, if there is one; the answer of `scan` if it fails. */
static dao_status_t bytes_check(const hardened_t *hardened, const taken_t *taken, uint8_t value, size_t begin,
                                size_t end, size_t *out_offset)
{
    if (begin == end) {
        return DAO_OK;
    }
    size_t offset = 0;
    dao_status_t status =
        hardened->bytes.scan(hardened->bytes.user, taken->address + begin, value, end - begin, &offset);
    if (status == DAO_OK && offset < end - begin) {
        *out_offset = begin + offset;
        return DAO_ERR_CORRUPT;
    }
    return status;
}

static dao_status_t corrupt_error(const hardened_t *hardened, const taken_t *taken, size_t offset)
{
    const char *what =
        offset >= taken->requested_bytes ? "was written past its end" : "was written after its free";
    return dao_error(DAO_ERR_CORRUPT,
                     "%s: the block of %zu bytes at %p %s: the first wrong byte is at offset %zu",
                     hardened->ledger.name, taken->requested_bytes, (void *)taken->address, what, offset);
}

dao_status_t dao_hardened_guard_check(const hardened_t *hardened, const taken_t *taken)
{
    size_t offset = 0;
    dao_status_t status = bytes_check(hardened, taken, DAO_HARDENED_GUARD_VALUE, taken->requested_bytes,
                                      dao_hardened_padded_bytes(hardened, taken->requested_bytes), &offset);
    return status == DAO_ERR_CORRUPT ? corrupt_error(hardened, taken, offset) : status;
}

dao_status_t dao_hardened_quarantine_check(const hardened_t *hardened, const taken_t *taken)
{
    size_t offset = 0;
    dao_status_t status =
        bytes_check(hardened, taken, freed_value(hardened), 0, taken->requested_bytes, &offset);
    if (status == DAO_ERR_CORRUPT) {
        return corrupt_error(hardened, taken, offset);
    }
    return status == DAO_OK ? dao_hardened_guard_check(hardened, taken) : status;
}

dao_status_t dao_hardened_bytes_retire(const hardened_t *hardened, const taken_t *taken)
{
    const dao_bytes_t *bytes = &hardened->bytes;
    dao_status_t status = dao_hardened_guard_check(hardened, taken);
    return status == DAO_OK && fills_freed(hardened)
               ? bytes->fill(bytes->user, taken->address, freed_value(hardened), taken->requested_bytes)
               : status;
}
