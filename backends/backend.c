/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a backend's table, once, when the context starts. */
#include "backends/backend.h"

#include "base/report/error.h"

/* Slots that every backend fills. */
#define REQUIRED_LIST(X)                                                                                     \
    X(open)                                                                                                  \
    X(close)                                                                                                 \
    X(device_count)                                                                                          \
    X(device_open)                                                                                           \
    X(device_close)                                                                                          \
    X(device_query)                                                                                          \
    X(device_synchronize)                                                                                    \
    X(memory_alloc)                                                                                          \
    X(memory_free)                                                                                           \
    X(pinned_alloc)                                                                                          \
    X(pinned_free)                                                                                           \
    X(stream_create)                                                                                         \
    X(stream_destroy)                                                                                        \
    X(stream_synchronize)                                                                                    \
    X(stream_wait_event)                                                                                     \
    X(stream_native)                                                                                         \
    X(event_create)                                                                                          \
    X(event_destroy)                                                                                         \
    X(event_record)                                                                                          \
    X(event_query)                                                                                           \
    X(event_synchronize)                                                                                     \
    X(event_elapsed)                                                                                         \
    X(copy)                                                                                                  \
    X(fill)                                                                                                  \
    X(host_func)

/* Virtual memory: all or none. */
#define PAGES_LIST(X)                                                                                        \
    X(address_reserve)                                                                                       \
    X(address_release)                                                                                       \
    X(pages_create)                                                                                          \
    X(pages_destroy)                                                                                         \
    X(pages_map)                                                                                             \
    X(pages_unmap)                                                                                           \
    X(pages_size)

/* Memory for several processes: all or none. */
#define SHARED_LIST(X)                                                                                       \
    X(shared_create)                                                                                         \
    X(shared_export)                                                                                         \
    X(shared_import)                                                                                         \
    X(shared_destroy)

/* Peer access, and registered host memory: all or none each. */
#define PEERS_LIST(X)                                                                                        \
    X(peer_can)                                                                                              \
    X(peer_enable)
#define HOST_LIST(X)                                                                                         \
    X(host_register)                                                                                         \
    X(host_unregister)                                                                                       \
    X(host_device_address)

/* The driver's pools: all or none. */
#define POOL_LIST(X)                                                                                         \
    X(pool_create)                                                                                           \
    X(pool_destroy)                                                                                          \
    X(pool_alloc)                                                                                            \
    X(pool_free)

/* Pages at several addresses: all or none. */
#define ALIAS_LIST(X)                                                                                        \
    X(alias_prepare)                                                                                         \
    X(alias_map)                                                                                             \
    X(alias_unmap)

/* Threads that stay on a device: both or neither. */
#define THREAD_LIST(X)                                                                                       \
    X(thread_stay)                                                                                           \
    X(thread_part)

dao_status_t dao_backend_ops_check(const dao_backend_ops_t *ops)
{
    if (ops == NULL || ops->name == NULL) {
        return dao_error(DAO_ERR_INVALID, "the backend has no table or no name");
    }
    if (ops->version != DAO_BACKEND_OPS_VERSION) {
        return dao_error(DAO_ERR_INVALID, "backend \"%s\" has table version %u, the library %d", ops->name,
                         ops->version, DAO_BACKEND_OPS_VERSION);
    }
#define REQUIRE(slot)                                                                                        \
    if (ops->slot == NULL) {                                                                                 \
        return dao_error(DAO_ERR_INVALID, "backend \"%s\" has no %s", ops->name, #slot);                     \
    }
    REQUIRED_LIST(REQUIRE)
#undef REQUIRE
#define NOTE(slot) || ops->slot != NULL
#define ALL_OR_NONE(slot)                                                                                    \
    if (has_any && ops->slot == NULL) {                                                                      \
        return dao_error(DAO_ERR_INVALID, "backend \"%s\" has only a part of %s: no %s", ops->name, group,   \
                         #slot);                                                                             \
    }
    const char *group = "virtual memory";
    bool has_any = false PAGES_LIST(NOTE);
    PAGES_LIST(ALL_OR_NONE)
    group = "memory for several processes";
    has_any = false SHARED_LIST(NOTE);
    SHARED_LIST(ALL_OR_NONE)
    group = "pools of the driver";
    has_any = false POOL_LIST(NOTE);
    POOL_LIST(ALL_OR_NONE)
    group = "peer access";
    has_any = false PEERS_LIST(NOTE);
    PEERS_LIST(ALL_OR_NONE)
    group = "registered host memory";
    has_any = false HOST_LIST(NOTE);
    HOST_LIST(ALL_OR_NONE)
    group = "pages at several addresses";
    has_any = false ALIAS_LIST(NOTE);
    ALIAS_LIST(ALL_OR_NONE)
    group = "threads that stay on a device";
    has_any = false THREAD_LIST(NOTE);
    THREAD_LIST(ALL_OR_NONE)
#undef ALL_OR_NONE
#undef NOTE
    return DAO_OK;
}
