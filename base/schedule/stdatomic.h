/* SPDX-License-Identifier: Apache-2.0 */
/* <stdatomic.h> of builds with DAO_SCHEDULE: the compiler's, with a point of the scheduler before each
   operation. The sources say what C11 says. */
#ifndef DAO_SCHEDULED_STDATOMIC_H
#define DAO_SCHEDULED_STDATOMIC_H

#include "base/schedule/schedule.h"

#pragma GCC system_header /* what the macros become is no business of the warnings at their callers */

#include_next <stdatomic.h>

/* Both compilers have the operations, by other names. */
#if defined(__clang__)
#define DAO_AT_LOAD(object, order)               __c11_atomic_load(object, order)
#define DAO_AT_STORE(object, value, order)       __c11_atomic_store(object, value, order)
#define DAO_AT_EXCHANGE(object, value, order)    __c11_atomic_exchange(object, value, order)
#define DAO_AT_FETCH(name, object, value, order) __c11_atomic_fetch_##name(object, value, order)
#define DAO_AT_CAS(weakness, object, old, new, a, b)                                                         \
    __c11_atomic_compare_exchange_##weakness(object, old, new, a, b)
#else
#define DAO_AT_LOAD(object, order)               __atomic_load_n(object, order)
#define DAO_AT_STORE(object, value, order)       __atomic_store_n(object, value, order)
#define DAO_AT_EXCHANGE(object, value, order)    __atomic_exchange_n(object, value, order)
#define DAO_AT_FETCH(name, object, value, order) __atomic_fetch_##name(object, value, order)
#define DAO_AT_CAS(weakness, object, old, new, a, b)                                                         \
    __atomic_compare_exchange_n(object, old, new, DAO_AT_##weakness, a, b)
#define DAO_AT_strong 0
#define DAO_AT_weak   1
#endif

#define DAO_AT(object) ((__typeof__(&*(object)))dao_schedule_at(object))

/* Adds in one step, or, as a defect on purpose, in two with a point between them. */
#define DAO_AT_ADD(name, sign, object, value, order)                                                         \
    (dao_schedule_splits() ? __extension__({                                                                 \
        __auto_type dao_at_old = DAO_AT_LOAD(DAO_AT(object), memory_order_seq_cst);                          \
        DAO_AT_STORE(DAO_AT(object), dao_at_old sign(value), memory_order_seq_cst);                          \
        dao_at_old;                                                                                          \
    })                                                                                                       \
                           : DAO_AT_FETCH(name, DAO_AT(object), value, order))

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and
#undef atomic_fetch_and_explicit

#define atomic_load_explicit(object, order)            DAO_AT_LOAD(DAO_AT(object), order)
#define atomic_store_explicit(object, value, order)    DAO_AT_STORE(DAO_AT(object), value, order)
#define atomic_exchange_explicit(object, value, order) DAO_AT_EXCHANGE(DAO_AT(object), value, order)
#define atomic_compare_exchange_strong_explicit(object, old, new, a, b)                                      \
    DAO_AT_CAS(strong, DAO_AT(object), old, new, a, b)
#define atomic_compare_exchange_weak_explicit(object, old, new, a, b)                                        \
    DAO_AT_CAS(weak, DAO_AT(object), old, new, a, b)
#define atomic_fetch_add_explicit(object, value, order) DAO_AT_ADD(add, +, object, value, order)
#define atomic_fetch_sub_explicit(object, value, order) DAO_AT_ADD(sub, -, object, value, order)
#define atomic_fetch_or_explicit(object, value, order)  DAO_AT_FETCH(or, DAO_AT(object), value, order)
#define atomic_fetch_and_explicit(object, value, order) DAO_AT_FETCH(and, DAO_AT(object), value, order)

#define atomic_load(object)            atomic_load_explicit(object, memory_order_seq_cst)
#define atomic_store(object, value)    atomic_store_explicit(object, value, memory_order_seq_cst)
#define atomic_exchange(object, value) atomic_exchange_explicit(object, value, memory_order_seq_cst)
#define atomic_compare_exchange_strong(object, old, new)                                                     \
    atomic_compare_exchange_strong_explicit(object, old, new, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_compare_exchange_weak(object, old, new)                                                       \
    atomic_compare_exchange_weak_explicit(object, old, new, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_fetch_add(object, value) atomic_fetch_add_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_sub(object, value) atomic_fetch_sub_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_or(object, value)  atomic_fetch_or_explicit(object, value, memory_order_seq_cst)
#define atomic_fetch_and(object, value) atomic_fetch_and_explicit(object, value, memory_order_seq_cst)

#endif
