/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls of the library this thread is inside of, while a callback of theirs runs: they use a place's
   memory when it returns, so that dao_finalize() must not take that away.

   Only calls that go on with something borrowed count; lines of the log are written by all kinds of calls,
   and count always. Segment callbacks, which hold an allocator's lock, are watch.h's. */
#ifndef DAO_BASE_CALLBACK_H
#define DAO_BASE_CALLBACK_H

#include <dao/status.h>

/* Around a call of the program's function; they nest. */
void dao_callback_begin(void);
void dao_callback_end(void);

/* DAO_ERR_REENTRANT, with a message, from inside of such a callback. */
DAO_NODISCARD dao_status_t dao_callback_check(void);

#endif
