/* SPDX-License-Identifier: Apache-2.0 */
/* memfd_create(2) and SCM_RIGHTS. Seals fix the size: if another process could shrink the file, accesses
   would end in SIGBUS. */
#define _GNU_SOURCE
#include "base/memory/shared.h"

#include "base/memory/host.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int dao_shared_create(size_t size_bytes)
{
    if (dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY) || size_bytes > INT64_MAX ||
        dao_host_file_is_limited(0, size_bytes)) {
        return DAO_NO_DESCRIPTOR;
    }
    int descriptor = dao_descriptor_keep(memfd_create("dao", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (descriptor >= 0 &&
        (ftruncate(descriptor, (off_t)size_bytes) != 0 || fcntl(descriptor, F_ADD_SEALS, SEALS) != 0)) {
        (void)close(descriptor);
        return DAO_NO_DESCRIPTOR;
    }
    return descriptor;
}

/* Seals what other processes must not do. Only the kernel's newer versions keep them from writing (5.1). */
static bool seal_shown(int descriptor)
{
    return fcntl(descriptor, F_ADD_SEALS, SEALS | F_SEAL_FUTURE_WRITE) == 0 ||
           (errno == EINVAL && fcntl(descriptor, F_ADD_SEALS, SEALS) == 0);
}

int dao_shared_show(const char *name, size_t size_bytes, void **out_address)
{
    size_bytes = dao_host_whole_pages(size_bytes);
    bool is_refused = dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY) || dao_host_file_is_limited(0, size_bytes);
    int descriptor = is_refused ? DAO_NO_DESCRIPTOR
                                : dao_descriptor_keep(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (descriptor < 0) {
        return DAO_NO_DESCRIPTOR;
    }
    void *address = MAP_FAILED;
    if (ftruncate(descriptor, (off_t)size_bytes) == 0 && fchmod(descriptor, S_IRUSR) == 0) {
        address = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    if (address == MAP_FAILED || !seal_shown(descriptor)) {
        if (address != MAP_FAILED) {
            dao_host_unmap(address, size_bytes);
        }
        (void)close(descriptor);
        return DAO_NO_DESCRIPTOR;
    }
    *out_address = address;
    return descriptor;
}

const void *dao_shared_look(int descriptor, size_t *out_size_bytes)
{
    if (!dao_shared_size(descriptor, out_size_bytes) || *out_size_bytes == 0) {
        return NULL;
    }
    void *address = mmap(NULL, *out_size_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    return address != MAP_FAILED ? address : NULL;
}

bool dao_shared_size(int descriptor, size_t *out_size_bytes)
{
    struct stat file;
    int seals = fcntl(descriptor, F_GET_SEALS); /* a kernel may add others */
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(descriptor, &file) != 0) {
        return false;
    }
    *out_size_bytes = (size_t)file.st_size;
    return true;
}

void *dao_shared_map(int descriptor, size_t size_bytes, size_t alignment_bytes)
{
    void *address = dao_host_reserve(size_bytes, alignment_bytes);
    if (address == NULL) {
        return NULL;
    }
    void *mapped = mmap(address, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0);
    if (mapped != address) {
        dao_host_unmap(address, size_bytes);
        return NULL;
    }
    return address;
}

/* Room for what lies beside a message: a descriptor, and what the options of a socket add, such as the
   sender's credentials. */
#define ANCILLARY_BYTES 256

typedef union ancillary {
    struct cmsghdr header; /* for its alignment */
    unsigned char bytes[ANCILLARY_BYTES];
} ancillary_t;

static struct msghdr message_of(struct iovec *part, ancillary_t *ancillary, size_t ancillary_bytes)
{
    return (struct msghdr){
        .msg_iov = part, .msg_iovlen = 1, .msg_control = ancillary->bytes, .msg_controllen = ancillary_bytes};
}

int dao_descriptor_send(int socket, const void *bytes, size_t size_bytes, int descriptor)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size_bytes};
    ancillary_t ancillary = {0};
    struct msghdr message = message_of(&part, &ancillary, CMSG_SPACE(sizeof(int)));
    if (descriptor == DAO_NO_DESCRIPTOR) {
        message.msg_control = NULL;
        message.msg_controllen = 0;
    } else {
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size_bytes ? 0 : sent < 0 ? errno : EMSGSIZE;
}

/* Returns the first descriptor of a message, or DAO_NO_DESCRIPTOR. Closes all others: the kernel has given
   this process whatever the peer has sent. */
static int descriptor_of(struct msghdr *message)
{
    int wanted = DAO_NO_DESCRIPTOR;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (wanted == DAO_NO_DESCRIPTOR) {
                wanted = descriptor;
            } else {
                dao_descriptor_close(descriptor);
            }
        }
    }
    return wanted;
}

/* A truncated control message may have lost the descriptor that was wanted. */
int dao_descriptor_receive(int socket, void *out_bytes, size_t size_bytes, int *out_descriptor)
{
    struct iovec part = {.iov_base = out_bytes, .iov_len = size_bytes};
    ancillary_t ancillary = {0};
    struct msghdr message = message_of(&part, &ancillary, sizeof(ancillary.bytes));
    ssize_t received;
    do {
        received = recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    } while (received < 0 && errno == EINTR);
    if (received < 0) {
        return errno;
    }
    int descriptor = descriptor_of(&message);
    if (received != (ssize_t)size_bytes || (message.msg_flags & MSG_CTRUNC) != 0) {
        dao_descriptor_close(descriptor);
        return received == 0 ? ENODATA : EBADMSG;
    }
    *out_descriptor = dao_descriptor_keep(descriptor);
    return descriptor >= 0 && *out_descriptor < 0 ? errno : 0;
}

uint64_t dao_process_token(void)
{
    static _Atomic uint64_t drawn; /* a forked child inherits it; its process id differs */
    uint64_t none = 0;
    uint64_t now = dao_clock_ns() ^ (uint64_t)(uintptr_t)&drawn;
    (void)atomic_compare_exchange_strong(&drawn, &none, now | 1);
    return atomic_load(&drawn) ^ (uint64_t)getpid() << 40;
}
