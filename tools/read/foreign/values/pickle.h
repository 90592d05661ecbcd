/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a pickle of protocol 2 to 5 that holds data alone: numbers, texts, lists, tuples, dictionaries. The
   opcodes are a closed list of 32. All others, which import modules and call them, are refused by their name:
   nothing of a file is ever run. */
#ifndef DAO_TOOLS_PICKLE_H
#define DAO_TOOLS_PICKLE_H

#include "tools/read/foreign/values/value_store.h"

/* Reads a whole file into an empty store, whose owner finishes it whatever the answer. DAO_ERR_PARSE with
   `FILE: byte N: what`; DAO_ERR_IO, DAO_ERR_LIMIT, DAO_ERR_NO_HOST_MEMORY. Cost: memory in proportion to the
   file. */
DAO_NODISCARD dao_status_t dao_pickle_read(const char *path, dao_value_store_t *store,
                                           dao_value_t *out_value);

/* Says whether a file begins as pickles of protocol 2 and later do. DAO_ERR_IO. */
DAO_NODISCARD dao_status_t dao_pickle_is(const char *path, bool *out_is);

#endif
