/* SPDX-License-Identifier: Apache-2.0 */
/* What most calls go through, and what they do not, kept apart: so that the usual path calls nothing and
   needs little of the stack, or none. The compiler's own measure of a function counts what is off it, too. */
#ifndef DAO_BASE_PATH_H
#define DAO_BASE_PATH_H

/* A part of the usual path, wherever it is used. */
#define DAO_ON_THE_PATH inline __attribute__((always_inline))

/* Off it: a call of its own. */
#define DAO_OFF_THE_PATH __attribute__((noinline))

#endif
