/* SPDX-License-Identifier: Apache-2.0 */
/* secure_getenv(3), and the kernel's word on it, AT_SECURE of getauxval(3). */
#define _GNU_SOURCE
#include "base/text/setting.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>

const char *dao_setting(const char *name)
{
    const char *text = secure_getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

bool dao_settings_are_trusted(void)
{
    return getauxval(AT_SECURE) == 0;
}
