/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of hot and cold paths. The hot path is inlined and its slow branches are calls, so it saves no
   registers and needs no stack frame. The compiler's own inlining counts the cold code of a function as
   well. */
#ifndef DAO_BASE_PATH_H
#define DAO_BASE_PATH_H

/* A part of a hot path: always inlined, but where what runs is counted: a copy at each call would count the
   same branches as others. */
#ifdef DAO_COVERAGE
#define DAO_ON_THE_PATH inline
#else
#define DAO_ON_THE_PATH inline __attribute__((always_inline))
#endif

/* A slow path: never inlined. */
#define DAO_OFF_THE_PATH __attribute__((noinline))

#endif
