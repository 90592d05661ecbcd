/* SPDX-License-Identifier: Apache-2.0 */
/* Capacities on the command line. */
#ifndef DAO_TOOLS_CAPACITY_H
#define DAO_TOOLS_CAPACITY_H

#include <dao/status.h>

/* Reads "50%", "37.5%" (of `peak_bytes`, rounded down) or a size such as "180MiB". DAO_ERR_INVALID with a
   message. */
DAO_NODISCARD dao_status_t dao_capacity_parse(const char *text, uint64_t peak_bytes, uint64_t *out_bytes);

#endif
