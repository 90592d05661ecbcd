/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, for each thread, the callbacks of the program that run inside a call of the library. Such a call
   uses the context after the callback returns, so dao_finalize() is refused inside one.

   Calls that use nothing afterwards do not count. The log always counts: any call may write a line. Segment
   callbacks run under an allocator's lock and are checked elsewhere. */
#ifndef DAO_BASE_CALLBACK_H
#define DAO_BASE_CALLBACK_H

#include <dao/status.h>

/* Enclose a call of the program's function. They nest. */
void dao_callback_begin(void);
void dao_callback_end(void);

/* Returns DAO_ERR_REENTRANT, with a message, inside such a callback, else DAO_OK. */
DAO_NODISCARD dao_status_t dao_callback_check(void);

#endif
