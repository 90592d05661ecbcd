/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several processes map: anonymous files of the system, whose descriptors travel through local
   sockets. The memory lives while a process has a descriptor of it or has it mapped. */
#ifndef DAO_BASE_SHARED_H
#define DAO_BASE_SHARED_H

#include "base/memory/descriptor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Creates zeroed memory of a fixed size, a multiple of the system's page. Returns its descriptor, or
   DAO_NO_DESCRIPTOR if refused. Pages are taken when they are touched. */
int dao_shared_create(size_t size_bytes);

/* Creates zeroed memory of a name that this process alone can write, by *out_address: whoever may look into
   the process finds it among its descriptors, and can read it. It takes dao_host_whole_pages(size_bytes).
   dao_host_unmap() of these and dao_descriptor_close() undo it; it goes with the process at the latest, and
   with exec. Returns DAO_NO_DESCRIPTOR if refused. */
int dao_shared_show(const char *name, size_t size_bytes, void **out_address);

/* Maps memory of dao_shared_show() of another process, to be read alone; its descriptor stays the caller's.
   dao_host_unmap() undoes that. Returns NULL if refused, or if its size is not fixed: accesses could end in a
   signal. */
const void *dao_shared_look(int descriptor, size_t *out_size_bytes);

/* Finds the size of memory of dao_shared_create(), of this process or another one. Returns false for any
   other descriptor. */
bool dao_shared_size(int descriptor, size_t *out_size_bytes);

/* Maps all of it, aligned; dao_host_unmap() undoes that. Returns NULL if refused. */
void *dao_shared_map(int descriptor, size_t size_bytes, size_t alignment_bytes);

/* Sends bytes, and a descriptor unless it is DAO_NO_DESCRIPTOR, through a local socket. Returns 0 or an
   errno. */
int dao_descriptor_send(int socket, const void *bytes, size_t size_bytes, int descriptor);

/* Receives a message of dao_descriptor_send(). *out_descriptor is owned by the caller, or DAO_NO_DESCRIPTOR;
   if the other side has sent several, all but the first are closed. Returns 0 or an errno: ENODATA if the
   other side has closed, EBADMSG for another size or more control messages than there is room for; then all
   are closed. */
int dao_descriptor_receive(int socket, void *out_bytes, size_t size_bytes, int *out_descriptor);

/* Returns a number that no other process of the machine has. Process ids repeat across containers. */
uint64_t dao_process_token(void);

#endif
