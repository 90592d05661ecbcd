/* SPDX-License-Identifier: Apache-2.0 */
/* What the environment says. Variables of the library's name files that it writes, and show what the process
   does: a process with more rights than who started it (setuid, setgid, capabilities) does not trust them, as
   glibc does not trust its own. */
#ifndef DAO_BASE_SETTING_H
#define DAO_BASE_SETTING_H

#include <stdbool.h>

/* Returns the text of a variable; NULL if it is not set, empty, or not to be trusted. */
const char *dao_setting(const char *name);

/* Returns whether this process trusts its environment. */
bool dao_settings_are_trusted(void);

#endif
