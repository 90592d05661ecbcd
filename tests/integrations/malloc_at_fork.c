/* SPDX-License-Identifier: Apache-2.0 */
/* A library that test_malloc is linked with: it allocates at each fork, and says so before any constructor of
   the program's. */
#include <pthread.h>
#include <stdlib.h>

enum { BYTES = 100000 };

static void *volatile block;

static void allocate(void)
{
    block = malloc(BYTES);
    free(block);
}

__attribute__((constructor)) static void start(void)
{
    (void)pthread_atfork(allocate, allocate, allocate);
}
