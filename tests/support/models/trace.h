/* SPDX-License-Identifier: Apache-2.0 */
/* Where traces are, for tests of the tool. */
#ifndef DAO_TESTS_SUPPORT_TRACE_H
#define DAO_TESTS_SUPPORT_TRACE_H

#include <stdbool.h>
#include <stddef.h>

/* The example that comes with the sources. */
#define DAO_TEST_TRACE DAO_TEST_SOURCE_DIR "/examples/traces/mobilenet_v2"

/* Five steps of a mixture of experts, the first 900 records of each: sizes follow the tokens. */
#define DAO_TEST_MOE_EVENTS DAO_TEST_SOURCE_DIR "/tests/support/models/moe/moe.8.events.csv"

/* Returns the folder of a larger trace that lies beside the project ($DAO_TEST_TRACES, else ../shared);
   false: not here. Where the variable promises it, that it is not there is a failure. */
bool dao_test_shared_trace(const char *name, char *out_path, size_t path_bytes);

/* The same for any file beside the project ($DAO_TEST_SHARED, else ../shared). */
bool dao_test_shared_file(const char *name, char *out_path, size_t path_bytes);

#endif
