/* SPDX-License-Identifier: Apache-2.0 */
/* The message behind a plug-in's latest failure in this thread: the library's, or the plug-in's own where no
   call of the library failed. Threads: any, each has its own. */
#ifndef DAO_INTEGRATIONS_MESSAGE_H
#define DAO_INTEGRATIONS_MESSAGE_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/* Hands on what a call of the library answered: its message is the one that counts. */
int dao_plugin_answer(dao_status_t status);

/* Keeps a message of the plug-in's own. Gives its status back. */
DAO_PRINTF(2, 3) int dao_plugin_fail(dao_status_t status, const char *format, ...);

/* Borrowed, valid until this thread's next failure; "" if none failed yet. */
const char *dao_plugin_message(void);

DAO_END_DECLS

#endif
