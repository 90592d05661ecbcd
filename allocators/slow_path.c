/* SPDX-License-Identifier: Apache-2.0 */
/* What calls the fast paths of all allocators off: slow_path.h. */
#include "allocators/slow_path.h"

_Atomic uint32_t dao_slow_path_count;
