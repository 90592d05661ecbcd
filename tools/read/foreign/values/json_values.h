/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a JSON file into values. */
#ifndef DAO_TOOLS_JSON_VALUES_H
#define DAO_TOOLS_JSON_VALUES_H

#include "tools/read/foreign/values/value_store.h"

/* Reads a whole file into an empty store, whose owner finishes it whatever the answer. DAO_ERR_PARSE with
   `FILE:LINE:COLUMN: what`; DAO_ERR_IO, DAO_ERR_LIMIT, DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_json_values_read(const char *path, dao_value_store_t *store,
                                                dao_value_t *out_value);

#endif
