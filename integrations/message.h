/* SPDX-License-Identifier: Apache-2.0 */
/* The message of a plug-in's latest failure in this thread: the library's, or the plug-in's own where no call
   of the library failed. Threads: any, each has its own. */
#ifndef DAO_INTEGRATIONS_MESSAGE_H
#define DAO_INTEGRATIONS_MESSAGE_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/* Returns the status of a library call as it is, and makes the library's message the current one. */
int dao_plugin_answer(dao_status_t status);

/* Makes a message of the plug-in's own the current one and returns `status`. */
__attribute__((format(printf, 2, 3))) int dao_plugin_fail(dao_status_t status, const char *format, ...);

/* Returns the current message, borrowed until this thread's next failure; "" before the first one. */
const char *dao_plugin_message(void);

DAO_END_DECLS

#endif
