/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several processes have, and how it comes from one to another: the system's anonymous files,
   their descriptors, and local sockets that carry those. The memory stays while anybody has a descriptor of
   it or has it mapped. */
#ifndef DAO_BASE_SHARED_H
#define DAO_BASE_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No descriptor. */
#define DAO_NO_DESCRIPTOR (-1)

/* Makes zeroed memory whose size never changes, a multiple of the system's page; DAO_NO_DESCRIPTOR if
   refused. Its pages are taken when they are touched. */
int dao_shared_create(size_t size_bytes);

/* Gives the size of what dao_shared_create() made, here or in another process. False for any other
   descriptor. */
bool dao_shared_size(int descriptor, size_t *out_size_bytes);

/* Maps all of it, aligned; dao_host_unmap() undoes that. NULL if refused. */
void *dao_shared_map(int descriptor, size_t size_bytes, size_t alignment_bytes);

/* Gives another descriptor of the same; DAO_NO_DESCRIPTOR if refused. */
int dao_descriptor_copy(int descriptor);

/* DAO_NO_DESCRIPTOR is allowed. */
void dao_descriptor_close(int descriptor);

/* Sends bytes, and a descriptor unless it is DAO_NO_DESCRIPTOR, through a local socket. Gives 0 or an errno.
   */
int dao_descriptor_send(int socket, const void *bytes, size_t size_bytes, int descriptor);

/* Receives what dao_descriptor_send() has sent; *out_descriptor is the caller's, or DAO_NO_DESCRIPTOR. Gives
   0 or an errno; ENODATA: the other side is closed. */
int dao_descriptor_receive(int socket, void *out_bytes, size_t size_bytes, int *out_descriptor);

/* Gives a number that tells this process from all others of the machine, whichever container they run in:
   numbers of processes do not. */
uint64_t dao_process_token(void);

#endif
