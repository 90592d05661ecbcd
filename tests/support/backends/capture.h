/* SPDX-License-Identifier: Apache-2.0 */
/* Capturing a stream into a graph, as programs do it by the vendor's own calls. */
#ifndef DAO_TESTS_SUPPORT_CAPTURE_H
#define DAO_TESTS_SUPPORT_CAPTURE_H

#include <stdbool.h>

/* Begins a capture in the mode in which most calls of the thread would end it. `native` is the vendor's
   stream. */
bool capture_begin(void *native);

/* Ends it, and drops the graph. False: something has ended it before, or tied it to other work. */
bool capture_end(void *native);

#endif
