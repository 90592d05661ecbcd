/* SPDX-License-Identifier: Apache-2.0 */
/* The part of ONNX Runtime's binary interface that the plug-in uses, as in onnxruntime_c_api.h of
   version 1.14 and later. OrtApi is a table of functions to which each version appends; OrtAllocator's
   `version` says how much of it is filled. */
#ifndef DAO_INTEGRATIONS_ORT_ABI_H
#define DAO_INTEGRATIONS_ORT_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

struct OrtApi;
struct OrtEnv;
struct OrtMemoryInfo;
struct OrtSessionOptions;
struct OrtStatus;

/* As of version 14: later versions have optional functions behind these three. */
#define ORT_ALLOCATOR_VERSION 14

typedef struct OrtAllocator {
    uint32_t version;
    void *(*alloc)(struct OrtAllocator *allocator, size_t size_bytes);
    void (*free)(struct OrtAllocator *allocator, void *address);
    const struct OrtMemoryInfo *(*info)(const struct OrtAllocator *allocator);
    void *later[8]; /* NULL */
} ort_allocator_t;

static_assert(offsetof(ort_allocator_t, alloc) == sizeof(void *), "the version takes a word");
static_assert(offsetof(ort_allocator_t, later) == 4 * sizeof(void *), "three functions follow");

/* Places in OrtApi's table. */
enum {
    ORT_GET_ERROR_MESSAGE = 2,
    ORT_DISABLE_MEM_PATTERN = 17,
    ORT_CREATE_MEMORY_INFO = 68,
    ORT_RELEASE_STATUS = 93,
    ORT_ADD_SESSION_CONFIG_ENTRY = 130,
    ORT_REGISTER_ALLOCATOR = 176,
    ORT_UNREGISTER_ALLOCATOR = 177,
};

enum { ORT_DEVICE_ALLOCATOR = 0 };                           /* OrtAllocatorType */
enum { ORT_MEMORY_CPU_OUTPUT = -1, ORT_MEMORY_DEFAULT = 0 }; /* OrtMemType */

/* Their types. A status is NULL or the caller's to release. */
typedef const char *(*ort_get_error_message_t)(const struct OrtStatus *status);
typedef void (*ort_release_status_t)(struct OrtStatus *status);
typedef struct OrtStatus *(*ort_disable_mem_pattern_t)(struct OrtSessionOptions *options);
typedef struct OrtStatus *(*ort_create_memory_info_t)(const char *name, int allocator_type, int id,
                                                      int memory_type, struct OrtMemoryInfo **out_info);
typedef struct OrtStatus *(*ort_add_session_config_entry_t)(struct OrtSessionOptions *options,
                                                            const char *key, const char *value);
typedef struct OrtStatus *(*ort_register_allocator_t)(struct OrtEnv *env, ort_allocator_t *allocator);
typedef struct OrtStatus *(*ort_unregister_allocator_t)(struct OrtEnv *env, const struct OrtMemoryInfo *info);

#endif
