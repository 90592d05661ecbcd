/* Checking a backend's table, once, as the context starts. */
#include "backends/backend.h"

#include "base/error.h"

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

/* Slots of virtual memory: all or none. */
#define PAGES_LIST(X)                                                                                        \
    X(address_reserve)                                                                                       \
    X(address_release)                                                                                       \
    X(pages_create)                                                                                          \
    X(pages_destroy)                                                                                         \
    X(pages_map)                                                                                             \
    X(pages_unmap)                                                                                           \
    X(pages_size)

/* Slots of peers, and of others' host memory. */
#define PEERS_LIST(X)                                                                                        \
    X(peer_can)                                                                                              \
    X(peer_enable)
#define HOST_LIST(X)                                                                                         \
    X(host_register)                                                                                         \
    X(host_unregister)                                                                                       \
    X(host_device_address)

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
    bool has_pages = false PAGES_LIST(NOTE);
    bool has_peers = false PEERS_LIST(NOTE);
    bool has_host = false HOST_LIST(NOTE);
#undef NOTE
#define ALL_OR_NONE(slot, has_any, group)                                                                    \
    if (has_any && ops->slot == NULL) {                                                                      \
        return dao_error(DAO_ERR_INVALID, "backend \"%s\" has only a part of " group ": no %s", ops->name,   \
                         #slot);                                                                             \
    }
#define ALL_PAGES(slot) ALL_OR_NONE(slot, has_pages, "virtual memory")
#define ALL_PEERS(slot) ALL_OR_NONE(slot, has_peers, "peer access")
#define ALL_HOST(slot)  ALL_OR_NONE(slot, has_host, "registered host memory")
    PAGES_LIST(ALL_PAGES)
    PEERS_LIST(ALL_PEERS)
    HOST_LIST(ALL_HOST)
#undef ALL_OR_NONE
#undef ALL_PAGES
#undef ALL_PEERS
#undef ALL_HOST
    return DAO_OK;
}
