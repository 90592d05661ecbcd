/* SPDX-License-Identifier: Apache-2.0 */
/* Which hardening the places have, and how it reaches their bytes. */
#ifndef DAO_RUNTIME_HARDENING_H
#define DAO_RUNTIME_HARDENING_H

#include "runtime/device/runtime.h"

/* Reads the settings, from the config or the environment, into the core. DAO_ERR_INVALID with a message. */
DAO_NODISCARD dao_status_t dao_hardening_find(const dao_config_t *config, dao_core_t *core);

/* Checks that flags are those of dao_hardening_t, and go together. DAO_ERR_INVALID with a message that
   begins with `what`. */
DAO_NODISCARD dao_status_t dao_hardening_flags_check(const char *what, uint32_t flags);

/* Returns what a place is hardened by: what its config says, else the core. 0 is nothing. */
uint32_t dao_hardening_of(dao_core_t *core, dao_place_t place);

/* Puts a hardened allocator around a place's allocator, if it is to be hardened. The runtime is borrowed,
   NULL for the host; its bytes_stream is there. DAO_ERR_NO_HOST_MEMORY: *allocator is still the caller's to
   destroy, and may be hardened already. */
DAO_NODISCARD dao_status_t dao_hardening_wrap(dao_core_t *core, dao_runtime_t *runtime, dao_place_kind_t kind,
                                              dao_allocator_t **allocator);

/* Looks at all blocks of all hardened places for the last time, and logs what is damaged as errors. Returns
   the number of places that are. Waits for the devices. */
uint32_t dao_hardening_report(dao_core_t *core, dao_runtime_t *const *runtimes, int32_t runtime_count);

#endif
