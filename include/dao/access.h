/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * How a kernel uses a tensor.
 */
#ifndef DAO_ACCESS_H
#define DAO_ACCESS_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/** How a kernel uses an operand. */
typedef enum dao_access {
    DAO_ACCESS_READ = 0,  /**< reads it; must have been written */
    DAO_ACCESS_WRITE = 1, /**< overwrites all of it: what it held is not fetched */
    DAO_ACCESS_READ_WRITE =
        2, /**< changes it in place; must have been written, or be zeroed on first touch */
} dao_access_t;

/** Some bytes of a tensor. All zero: all of them. */
typedef struct dao_span {
    size_t offset_bytes;
    size_t size_bytes; /**< 0: all that follow */
} dao_span_t;

DAO_END_DECLS

#endif
