/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes numbers with units: "64MiB", "1.5GB", "50GB/s", "10us". */
#ifndef DAO_BASE_UNITS_H
#define DAO_BASE_UNITS_H

#include <dao/status.h>

/* Each parser reads the whole text: digits, perhaps a fraction, perhaps a unit; no sign and no exponent. A
   fraction ("1.5GiB") is rounded down to a whole byte or ns, and needs a unit of more than one.
   DAO_ERR_INVALID or DAO_ERR_OVERFLOW, with a message that names the text and what is allowed. */

/* Bytes: none or B; kB, MB, GB, TB (powers of 1000); KiB, MiB, GiB, TiB, also without their B, and K, M, G, T
   (of 1024). Upper and lower case are one: "8gb" is 8GB, "8G" and "8gib" are 8GiB. */
DAO_NODISCARD dao_status_t dao_units_parse_bytes(const char *text, uint64_t *out_bytes);

/* Bytes a second: bytes, then "/s" or nothing. */
DAO_NODISCARD dao_status_t dao_units_parse_rate(const char *text, uint64_t *out_bytes_per_second);

/* Time: ns or none, us, ms, s. */
DAO_NODISCARD dao_status_t dao_units_parse_time(const char *text, uint64_t *out_ns);

/* Digits alone. */
DAO_NODISCARD dao_status_t dao_units_parse_count(const char *text, uint64_t *out_count);

/* "0" or "1". */
DAO_NODISCARD dao_status_t dao_units_parse_switch(const char *text, uint64_t *out_value);

/* Bytes that hold any text of dao_units_format_*(). */
#define DAO_UNITS_TEXT_BYTES 32

/* Write a text for people, such as "172.7 MiB", "8.0 GB/s", "2.9 ms": sizes by powers of 1024, as memory has
   them, rates by powers of 1000, as links have. They give out_text. */
const char *dao_units_format_bytes(uint64_t bytes, char out_text[DAO_UNITS_TEXT_BYTES]);
const char *dao_units_format_rate(uint64_t bytes_per_second, char out_text[DAO_UNITS_TEXT_BYTES]);
const char *dao_units_format_time(uint64_t ns, char out_text[DAO_UNITS_TEXT_BYTES]);

#endif
