/* SPDX-License-Identifier: Apache-2.0 */
/* In builds that count what runs, the linker puts this in the place of _exit(): a child process of a test
   writes its counts down, as exit() would, and ends. */
#include <unistd.h>

void __gcov_dump(void);
_Noreturn void __real__exit(int code);
_Noreturn void __wrap__exit(int code);

_Noreturn void __wrap__exit(int code)
{
    __gcov_dump();
    __real__exit(code);
}
