/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local variables that every allocation reads. */
#ifndef DAO_BASE_THREAD_LOCAL_H
#define DAO_BASE_THREAD_LOCAL_H

/* With the initial-exec model a read is one instruction, since the variable has a fixed offset in the
   thread's block. All thread-local variables of the library then need room there, of which glibc keeps a few
   hundred bytes for libraries loaded later. A build that links a vendor's library with larger ones defines
   DAO_DYNAMIC_THREAD_LOCAL and calls the loader for each read. */
#if defined(__GNUC__) && !defined(DAO_DYNAMIC_THREAD_LOCAL)
#define DAO_FAST_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define DAO_FAST_THREAD_LOCAL _Thread_local
#endif

#endif
