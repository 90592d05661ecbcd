/* Which capture a stream is a part of. */
#ifndef DAO_BACKENDS_HIP_CAPTURE_H
#define DAO_BACKENDS_HIP_CAPTURE_H

#include <hip/hip_runtime_api.h>
#include <stdint.h>

/* Gives the number of the capture; 0: none; DAO_CAPTURE_UNKNOWN: one that has failed, or, asked for the default stream, that of
   any other stream which waits for it. Does the capture no harm. */
hipError_t dao_hip_stream_capture(hipStream_t stream, uint64_t *out_capture);

#endif
