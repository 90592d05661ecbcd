/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory as the host sees it: addresses that fault, over the bytes of the cpu backend.

       address   what callers see and pass; reserved address space, so an access faults
       bytes     what copies and fills that run on the device read and write

   The addresses of a reservation and the bytes behind it are equally far apart everywhere, so that pages are
   mapped at the bytes. Pinned memory is the host's own: it has one address. */
#ifndef DAO_TESTS_LOOPBACK_VEIL_H
#define DAO_TESTS_LOOPBACK_VEIL_H

#include "tests/loopback/driver.h"

/* Returns addresses for memory of a device, or NULL if the system has none. */
void *loopback_veil(size_t size_bytes);
void loopback_unveil(const loopback_span_t *span);

/* Returns the bytes behind an address of a device, or a host's address as it is. All of the range is in one
   allocation or one reservation, or none of it is in any. */
void *loopback_bytes(const void *address, size_t size_bytes);

/* Allocates memory of the current device: a span, which the caller enters into the list. */
vendorError_t loopback_memory_take(size_t size_bytes, loopback_span_t *out_span);

/* Frees it, once it is out of the list. */
vendorError_t loopback_memory_give(const loopback_span_t *span);

#endif
