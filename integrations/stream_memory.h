/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory in the order of a framework's streams: what the plug-ins of PyTorch and CuPy share.

   A framework frees a block while kernels that use it are still queued: work that is queued on the same
   stream later may use the block at once. So each stream is adopted, once, for the rest of the process. On
   streams beyond the number that the library follows, a free waits for the whole device.

   The first call starts the library, which then stays started. Threads: any. */
#ifndef DAO_INTEGRATIONS_STREAM_MEMORY_H
#define DAO_INTEGRATIONS_STREAM_MEMORY_H

#include <dao/dao.h>

/* Allocates memory for work that is queued on a stream from now on. Returns NULL for 0 bytes, or with
   dao_last_status(). A failure is printed on the standard error after `who`, as frameworks cannot pass it
   on. */
void *dao_stream_memory_alloc(const char *who, int device_index, size_t size_bytes, void *native_stream);

/* Frees memory after the work that is queued on the stream and on the streams recorded for the block. */
void dao_stream_memory_free(const char *who, int device_index, void *address, void *native_stream);

/* Records that a stream uses a block, too. Returns false if no device has such a block. */
bool dao_stream_memory_record(void *address, void *native_stream);

/* Returns true if a stream of the device was used here. */
bool dao_stream_memory_is_used(int device_index);

#endif
