/* SPDX-License-Identifier: Apache-2.0 */
/* The end of what is registered, for the library's stop. */
#ifndef DAO_RUNTIME_HOST_REGISTER_H
#define DAO_RUNTIME_HOST_REGISTER_H

#include "runtime/core/context_internal.h"

/* Gives up all that is registered; no other call is under way. */
void dao_registrations_end(dao_core_t *core);

#endif
