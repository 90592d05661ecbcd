/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file libdao_onnxruntime.so: memory of ONNX Runtime from libdao's places. With ONNX Runtime's header:
 *
 *     const OrtApi *api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
 *     dao_onnxruntime_register(api, env, dao_place_of(dao_cpu_place()));    once an environment
 *     dao_onnxruntime_session(api, options);                               for each session that is to use it
 *
 *     dao_step_begin(place);          a step plan, where the place has one
 *     api->Run(session, ...);
 *     dao_step_end(place);
 *
 * docs/onnxruntime.md shows more. ONNX Runtime 1.14 or later.
 */
#ifndef DAO_ONNXRUNTIME_H
#define DAO_ONNXRUNTIME_H

#include <dao/place.h>

DAO_BEGIN_DECLS

struct OrtAllocator; /* these are ONNX Runtime's */
struct OrtApi;
struct OrtEnv;
struct OrtSessionOptions;

/**
 * Returns an allocator of ONNX Runtime over a place. Blocks of a device and pinned memory are freed when the
 * device's work is done (see dao_onnxruntime_gpu_stream() for how a free need not wait); a request that
 * cannot be met is a message on the standard error and a std::bad_alloc, which ONNX Runtime turns into a
 * status of the run; NULL where no C++ library is loaded.
 *
 * @param api    ONNX Runtime's table of functions, of version 14 or later; valid for the rest of the process.
 * @param place  Any place. ONNX Runtime knows it by a name: "Cpu"; "Cuda" and "CudaPinned", on the hip
 *               backend "Hip" and "HipPinned", with the place's index.
 * @return Valid for the rest of the process; the same each time. NULL with dao_onnxruntime_last_message():
 *         DAO_ERR_INVALID for NULL and for what is no place; DAO_ERR_UNSUPPORTED with what ONNX Runtime said.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API struct OrtAllocator *dao_onnxruntime_allocator(const struct OrtApi *api, dao_place_t place);

/**
 * Makes a place's allocator the one that an environment's sessions share. Those sessions use it that were
 * configured by dao_onnxruntime_session().
 *
 * @param api    As above.
 * @param env    The environment; its allocator is taken away by dao_onnxruntime_unregister(), or with it.
 * @param place  As above.
 * @return DAO_OK, or a dao_status_t: as above; DAO_ERR_UNSUPPORTED also where the environment has an
 *         allocator for that memory already.
 *
 * Threads: as OrtApi::RegisterAllocator. Waits: never. Cost: O(1).
 */
DAO_API int dao_onnxruntime_register(const struct OrtApi *api, struct OrtEnv *env, dao_place_t place);

/** Takes it away again: sessions that are created from now on do not use it. Returns as
    dao_onnxruntime_register(). Threads: as OrtApi::UnregisterAllocator. Waits: never. Cost: O(1). */
DAO_API int dao_onnxruntime_unregister(const struct OrtApi *api, struct OrtEnv *env, dao_place_t place);

/**
 * Makes the sessions of these options use the allocators of their environment, and ask for each tensor on its
 * own: without that ONNX Runtime plans the first run itself, and asks for one large block a run.
 *
 * @return As dao_onnxruntime_register().
 *
 * Threads: as OrtApi::AddSessionConfigEntry. Waits: never. Cost: O(1).
 */
DAO_API int dao_onnxruntime_session(const struct OrtApi *api, struct OrtSessionOptions *options);

/* ---- the CUDA provider ---- */

/**
 * Says which device and stream dao_onnxruntime_gpu_alloc() is for, and that memory which ONNX Runtime frees
 * on this device may be used again behind that stream's work. Name the stream that the provider has as
 * `user_compute_stream`. Without it, a free waits for the device, as cudaFree() does.
 *
 * @param device  From 0. It is 0 without this call.
 * @param stream  Such as a cudaStream_t; NULL is the vendor's default stream.
 * @return DAO_OK; DAO_ERR_INVALID for a number that is no device's.
 *
 * Threads: one, before the provider's first session. Waits: never. Cost: O(1).
 */
DAO_API int dao_onnxruntime_gpu_stream(int device, void *stream);

/**
 * The functions of the CUDA provider's options gpu_external_alloc, gpu_external_free and
 * gpu_external_empty_cache, which take their addresses as decimal text.
 *
 * Threads: any. Waits: as dao_alloc() and dao_free_native(); the last one as dao_trim(). Cost: as those.
 */
DAO_API void *dao_onnxruntime_gpu_alloc(size_t size_bytes);
DAO_API void dao_onnxruntime_gpu_free(void *address);
DAO_API void dao_onnxruntime_gpu_empty_cache(void);

/**
 * Returns the message of the latest of these calls that failed in this thread, as dao_last_message().
 * Threads: any, each has its own. Waits: never.
 */
DAO_API const char *dao_onnxruntime_last_message(void);

DAO_END_DECLS

#endif
