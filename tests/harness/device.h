/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual devices without a thread: memory is the cpu backend's, work runs when the program says so or when a
   call waits for it. So equal programs see equal devices. An event that was asked for three times in a row is
   brought nearer by one command, so that whoever polls gets there. */
#ifndef DAO_TESTS_HARNESS_DEVICE_H
#define DAO_TESTS_HARNESS_DEVICE_H

#include "backends/backend.h"

/* Returns the table. It is static; all streams and events of an earlier use are gone. */
const dao_backend_ops_t *harness_device_wrap(const dao_backend_ops_t *inner, bool hides_pages);

/* Runs commands of the stream that stream_native() names, as far as it need not wait. Returns the number that
   ran. */
uint32_t harness_device_run(void *native, uint32_t command_count);

/* Streams, events and marks that are there: 0 when the library has ended. */
int64_t harness_device_live_count(void);

#endif
