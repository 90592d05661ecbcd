/* SPDX-License-Identifier: Apache-2.0 */
/* Access to a device's bytes for tests, whose kernels are host functions.

   If the host can access the device's memory (host_accessible of dao_device_info_t), bytes are accessed in
   place. For other devices, real ones and those of the loopback driver, they are copied, and a kernel is
   three pieces of work in its stream's order, without a wait:

       copies of its inputs to pinned scratch -> the function on the scratch -> copies of its outputs back

   The scratch is the test's own, allocated from the backend and unknown to any place, so no count of the
   library changes. */
#ifndef DAO_TESTS_SUPPORT_DEVICE_BYTES_H
#define DAO_TESTS_SUPPORT_DEVICE_BYTES_H

#include "backends/backend.h"
#include "tests/support/gate.h"

#include <dao/executor.h>
#include <dao/place.h>

/* Most operands of a kernel. */
#define DEVICE_OPERAND_COUNT_MAX 16

typedef struct device_operand {
    dao_place_t place; /* of its bytes; the host's are used where they are */
    void *address;
    size_t size_bytes;
    dao_access_t access;
} device_operand_t;

/* A kernel's function: where each operand's bytes are for it, in their order. */
typedef void (*device_kernel_t)(unsigned char *const *bytes, void *user);

/* Queues a kernel. After an error nothing is queued that uses `user`. With a backend that fails on purpose a
   kernel is one call that can fail, dao_stream_host_func(). */
DAO_NODISCARD dao_status_t device_launch(dao_stream_t *stream, const device_operand_t *operands,
                                         uint32_t operand_count, device_kernel_t function, void *user);

/* Returns true if all bytes have a value, for the function of a kernel. */
bool bytes_are_all(const unsigned char *bytes, unsigned char value, size_t size_bytes);

/* Puts a gate into a stream: later work waits until it is open. Once, for a gate. As device_launch()
   otherwise. */
DAO_NODISCARD dao_status_t device_gate(dao_stream_t *stream, dao_gate_t *gate);

/* How a gate holds up a stream of a device whose memory the host does not touch, without a host function that
   waits: those may run one after the other there, whichever streams they are on. False: the device cannot do
   that. Once, before the first gate. */
typedef bool (*device_hold_t)(int32_t device_index, void *native_stream, const uint32_t *word);
void device_hold_set(device_hold_t hold);

/* Read and fill bytes of a place; nothing else uses them. A failure ends the program. */
void device_read(dao_place_t place, const void *address, void *bytes, size_t size_bytes);
void device_fill(dao_place_t place, void *address, unsigned char value, size_t size_bytes);

/* One byte. */
unsigned char device_byte(dao_place_t place, const void *address);

bool device_holds(dao_place_t place, const void *address, unsigned char value, size_t size_bytes);

/* Makes those possible for a place inside of a segment callback, which must start no device. */
void device_bytes_open(dao_place_t place);

/* Frees what was allocated for a device, which is about to be closed: for the table that a program's suites
   run on. */
void device_bytes_end(dao_backend_device_t *device);

#endif
