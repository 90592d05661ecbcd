/* SPDX-License-Identifier: Apache-2.0 */
/* What compilers that can check formats are told of functions that take one. */
#ifndef DAO_BASE_FORMAT_H
#define DAO_BASE_FORMAT_H

/* Argument `text`, counted from 1, is a format as printf() takes them; its values begin with argument
   `first`, which is 0 where they come as a va_list. */
#if defined(__GNUC__)
#define DAO_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define DAO_PRINTF(text, first)
#endif

#endif
