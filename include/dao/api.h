/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * What every header needs: the version, visibility, and C linkage for C++.
 */
#ifndef DAO_API_H
#define DAO_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DAO_VERSION_MAJOR  0
#define DAO_VERSION_MINOR  1
#define DAO_VERSION_PATCH  0
#define DAO_VERSION_STRING "0.1.0" /* of these headers; dao_version() is that of the library */

#ifdef __cplusplus
#define DAO_BEGIN_DECLS extern "C" {
#define DAO_END_DECLS   }
#else
#define DAO_BEGIN_DECLS
#define DAO_END_DECLS
#endif

#if defined(__GNUC__)
#define DAO_API       __attribute__((visibility("default")))
#define DAO_NODISCARD __attribute__((warn_unused_result))
#else
#define DAO_API
#define DAO_NODISCARD
#endif

DAO_BEGIN_DECLS

/**
 * Returns the version of the library that the program runs with, such as "0.1.0".
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_version(void);

DAO_END_DECLS

#endif
