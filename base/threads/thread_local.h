/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local variables that every allocation reads. */
#ifndef DAO_BASE_THREAD_LOCAL_H
#define DAO_BASE_THREAD_LOCAL_H

/* Reading one takes an instruction, as it has a fixed place in the thread's own memory. But then all
   thread-local variables of the library have: a program that loads it while it runs keeps a few hundred bytes
   for that. A build that links in a vendor's library with more of them (DAO_DYNAMIC_THREAD_LOCAL) asks the
   loader at each reading instead. */
#if defined(__GNUC__) && !defined(DAO_DYNAMIC_THREAD_LOCAL)
#define DAO_FAST_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define DAO_FAST_THREAD_LOCAL _Thread_local
#endif

#endif
