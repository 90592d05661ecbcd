/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device in the order of streams that a framework made: what the plug-ins for frameworks of
   devices share.

   A framework frees while its kernels still run: the block may be used again behind them, on their stream at
   once. So each of its streams is adopted, once, for the rest of the process. Beyond the number of streams
   that the library follows, memory is free once the device has done all its work.

   The first call starts the library, which then stays started. Threads: any. */
#ifndef DAO_INTEGRATIONS_STREAM_MEMORY_H
#define DAO_INTEGRATIONS_STREAM_MEMORY_H

#include <dao/dao.h>

/* Gives memory for work that is queued on a stream from now on; NULL with dao_last_status(), or for 0 bytes.
   What went wrong is told on the standard error, after `who`: the frameworks have no way to pass it on. */
void *dao_stream_memory_alloc(const char *who, int device_index, size_t size_bytes, void *native_stream);

/* Frees memory behind the work that is queued on a stream, and on those that were recorded for it. */
void dao_stream_memory_free(const char *who, int device_index, void *address, void *native_stream);

/* Says that a stream uses a block, too. False: no device here has such a block. */
bool dao_stream_memory_record(void *address, void *native_stream);

/* Tells whether a stream of the device was used here. */
bool dao_stream_memory_is_used(int device_index);

#endif
