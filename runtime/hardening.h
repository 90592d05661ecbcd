/* Which hardening the places have, and how it reaches their bytes. */
#ifndef DAO_RUNTIME_HARDENING_H
#define DAO_RUNTIME_HARDENING_H

#include "runtime/context_internal.h"

/* Reads the settings, from the config or the environment, into the core. DAO_ERR_INVALID with a message. */
DAO_NODISCARD dao_status_t dao_hardening_find(const dao_config_t *config, dao_core_t *core);

/* Puts a hardened allocator around a place's allocator, if the core asks for it. The runtime is borrowed, NULL for the host;
   its bytes_stream is there. DAO_ERR_NO_HOST_MEMORY: the allocator stays as it was. */
DAO_NODISCARD dao_status_t dao_hardening_wrap(dao_core_t *core, dao_runtime_t *runtime, dao_place_kind_t kind,
                                              dao_allocator_t **allocator);

#endif
