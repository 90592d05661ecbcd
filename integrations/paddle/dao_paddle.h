/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file libdao_paddle.so: a custom device of Paddle, named "dao", over libdao's devices: their memory,
 * streams, events and copies. Paddle loads it from the folder that CUSTOM_DEVICE_ROOT names, and calls
 * InitPlugin(). docs/paddle.md shows its use.
 */
#ifndef DAO_PADDLE_H
#define DAO_PADDLE_H

#include <dao/api.h>

DAO_BEGIN_DECLS

struct CustomRuntimeParams; /* Paddle's */

/**
 * Fills Paddle's table of a custom device. For a table that is shorter than the part which Paddle 2.4 to 3.x
 * agree on nothing is filled, a message goes to the standard error, and Paddle skips the device.
 *
 * Device memory that Paddle frees is used again in the order of the device's stream as long as Paddle has
 * made one on it; with several, a free waits for the device. Copies between a stream and host memory that is
 * not pinned are done on return. Failures answer C_FAILED where memory is short or work is not done, C_ERROR
 * for wrong arguments, else C_INTERNAL_ERROR, with a message on the standard error.
 *
 * Threads: one. Waits: never. Cost: O(1); the library starts with the table's initialize().
 */
DAO_API void InitPlugin(struct CustomRuntimeParams *params);

DAO_END_DECLS

#endif
