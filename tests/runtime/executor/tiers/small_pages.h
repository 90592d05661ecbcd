/* SPDX-License-Identifier: Apache-2.0 */
/* A virtual device whose pages are as small as the system's, so that small tensors lie in pages. */
#ifndef DAO_TESTS_SMALL_PAGES_H
#define DAO_TESTS_SMALL_PAGES_H

#include "backends/backend.h"

#define SMALL_PAGE_BYTES ((size_t)4096)

/* The table, but for the size of pages that are mapped at several addresses. One at a time. */
const dao_backend_ops_t *small_pages_wrap(const dao_backend_ops_t *ops);

#endif
