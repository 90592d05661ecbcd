/* SPDX-License-Identifier: Apache-2.0 */
/* How a real device's stream is held up without a thread of the driver's: host functions may run one after
   the other, whichever streams they are on, so that one which waits would keep all others waiting. */
#ifndef DAO_TESTS_SUPPORT_HOLD_H
#define DAO_TESTS_SUPPORT_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/* Makes later work of a stream wait until a word of pinned memory is 1. `native` is the vendor's handle.
   False: the device cannot do that, and nothing is queued. */
bool vendor_hold(int32_t device_index, void *native, const uint32_t *word);

#endif
