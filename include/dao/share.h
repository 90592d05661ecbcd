/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Device memory that several processes have: one creates and exports it, others import it.
 *
 *     one process                                          another one
 *     dao_memory_create_shared(place, bytes, &memory)
 *     dao_memory_export(memory, &share)
 *     dao_share_send(&share, socket)            --->       dao_share_receive(socket, &share)
 *     dao_share_close(&share)                              dao_memory_import(place, &share, &memory)
 *                                                          dao_share_close(&share)
 *     dao_memory_release(memory)                           dao_memory_release(memory)
 *
 * Shared memory is a segment of its own, so other processes see nothing else of this one. It does not count
 * for the place's limit or tags, since the place could not release any of it to make room. To stay within a
 * number of bytes, set the limit to that number less what is shared. `shared_bytes` and `imported_bytes` of
 * dao_stats_t count it, as does dao_device_query(). Segment callbacks (dao/segment.h) are told of it. It is a
 * handle like any other: for tensors, DLPack, dao_copy().
 *
 * The processes agree among themselves who writes when: an event of one means nothing to another. Finish the
 * work with dao_stream_synchronize(), then tell the others.
 *
 * Lifetime: a share with a descriptor refers to the memory itself. The memory lives until the last process
 * has released its handle and closed its shares, in any order, even if the process that created it has ended.
 * A share without one (dao_share_t::descriptor is negative) refers to the exporting process, which keeps its
 * handle until all others have released theirs. Importing memory that is gone, or a closed share, is an
 * error.
 */
#ifndef DAO_SHARE_H
#define DAO_SHARE_H

#include <dao/memory.h>

DAO_BEGIN_DECLS

/** Bytes of a share. */
#define DAO_SHARE_BYTES 128

/**
 * What another process needs to import memory. The bytes may be copied and travel in any way. A descriptor
 * has to be sent by dao_share_send(), or as the system passes descriptors otherwise, and stored here.
 */
typedef struct dao_share {
    unsigned char bytes[DAO_SHARE_BYTES];
    /** A file descriptor of this process, owned by the owner of the share. -1: there is none to send. */
    int descriptor;
} dao_share_t;

/**
 * Allocates device memory that can be exported.
 *
 * @param place       A device.
 * @param size_bytes  At least 1. The device rounds it up to its granularity, mostly 2 MiB.
 * @param out_memory  The caller owns one reference. The handle has no stream: its last release waits for the
 *                    device.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_UNSUPPORTED for the host's and for pinned memory, and where the
 *         backend shares nothing; DAO_ERR_NO_DEVICE_MEMORY; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_DEVICE_LOST; DAO_ERR_BACKEND; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: as the backend's allocation does. Cost: a few backend calls.
 */
DAO_API DAO_NODISCARD dao_status_t dao_memory_create_shared(dao_place_t place, size_t size_bytes,
                                                            dao_memory_t **out_memory);

/**
 * Exports memory to another process: once for each process.
 *
 * @param memory     Of dao_memory_create_shared(), the whole of it.
 * @param out_share  Written only on DAO_OK; the caller owns its descriptor, until dao_share_close().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_UNSUPPORTED for any other memory, imported one too; without a free
 *         descriptor DAO_ERR_IO, or DAO_ERR_BACKEND by a vendor's driver; DAO_ERR_DEVICE_LOST;
 *         DAO_ERR_BACKEND; DAO_ERR_FORKED.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_memory_export(dao_memory_t *memory, dao_share_t *out_share);

/**
 * Creates a handle to memory that another process has exported. Its last release closes it here.
 *
 * @param place       The same device in this process, or one that reaches it. dao_peer_enable() does not
 *                    extend to imported memory.
 * @param share       Borrowed; it can be closed after the call.
 * @param out_memory  The caller owns one reference. The handle has no stream: its last release waits for the
 *                    device.
 * @return DAO_OK; DAO_ERR_INVALID for what is no share, for one that is closed or says 0 bytes, whose memory
 *         is gone or is smaller than the share says, and for one of this process, which has it already;
 *         DAO_ERR_UNSUPPORTED for another backend's; otherwise as dao_memory_create_shared().
 *
 * Threads: any. Waits: as the backend's allocation does. Cost: a few backend calls.
 */
DAO_API DAO_NODISCARD dao_status_t dao_memory_import(dao_place_t place, const dao_share_t *share,
                                                     dao_memory_t **out_memory);

/**
 * Sends a share to another process of this machine.
 *
 * @param share   Borrowed; the other side gets a descriptor of its own.
 * @param socket  A local socket (AF_UNIX) that keeps messages whole or is a stream: socketpair(), accept(),
 *                connect().
 * @return DAO_OK; DAO_ERR_INVALID for NULL, what is no share, and a missing descriptor; DAO_ERR_IO, and the
 *         system's reason in the message.
 *
 * Threads: any, one at a time on a socket. Waits: while the socket is full. Cost: a system call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_share_send(const dao_share_t *share, int socket);

/**
 * Receives what dao_share_send() has sent.
 *
 * @param socket     The other end of the one that it was sent on.
 * @param out_share  Written only on DAO_OK; the caller owns its descriptor, until dao_share_close().
 * @return DAO_OK; DAO_ERR_INVALID for NULL, for what is no share, and for one without its descriptor;
 *         DAO_ERR_IO, also when the other side has closed the socket. Descriptors that do not belong to the
 *         share are closed, whatever the other side has sent.
 *
 * Threads: any, one at a time on a socket. Waits: for the other side. Cost: a system call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_share_receive(int socket, dao_share_t *out_share);

/**
 * Closes a share's descriptor, if it has one, and clears its bytes: it is no share any more. Memory that was
 * imported by it stays.
 *
 * @param share  NULL is allowed, one of zeros, and one that is closed already; then nothing is done.
 *
 * Threads: any. Waits: never. Cost: a system call.
 */
DAO_API void dao_share_close(dao_share_t *share);

DAO_END_DECLS

#endif
