/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of two processes: one creates it and sends it through a local socket, the other one receives
   it and writes into it. A forked child cannot use a library that its parent has started, so both start it
   after the fork. */
#define _POSIX_C_SOURCE 200809L /* fork, socketpair */
#include <dao/dao.h>

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)1 << 20)

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static unsigned char bytes[BYTES];

static int fail(const char *who)
{
    (void)fprintf(stderr, "%s: %s: %s\n", who, dao_status_name(dao_last_status()), dao_last_message());
    return 1;
}

/* The other process: receives the memory and fills it. */
static int take(int socket)
{
    dao_share_t share;
    dao_memory_t *memory;
    if (dao_share_receive(socket, &share) != DAO_OK) {
        return fail("receive");
    }
    dao_status_t status = dao_memory_import(device, &share, &memory);
    dao_share_close(&share); /* the handle owns the memory now */
    if (status != DAO_OK) {
        return fail("import");
    }
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (unsigned char)(i % 251);
    }
    status =
        dao_copy(device, dao_memory_address(memory), host, bytes, BYTES); /* dao_copy() has waited for it */
    if (status != DAO_OK || dao_memory_release(memory) != DAO_OK || dao_finalize() != DAO_OK) {
        return fail("write");
    }
    return write(socket, "w", 1) == 1 ? 0 : 1;
}

/* Waits for the other process. */
static bool is_told(int socket)
{
    char byte;
    ssize_t count;
    do {
        count = read(socket, &byte, 1);
    } while (count < 0 && errno == EINTR);
    return count == 1;
}

static int give(int socket)
{
    dao_share_t share;
    dao_memory_t *memory;
    if (dao_memory_create_shared(device, BYTES, &memory) != DAO_OK ||
        dao_memory_export(memory, &share) != DAO_OK) {
        return fail("export");
    }
    dao_status_t status = dao_share_send(&share, socket);
    dao_share_close(&share);
    if (status != DAO_OK) {
        return fail("send");
    }
    if (!is_told(socket) || dao_copy(host, bytes, device, dao_memory_address(memory), BYTES) != DAO_OK) {
        return fail("read");
    }
    (void)printf("byte %zu of the other process is %d\n", BYTES - 1, bytes[BYTES - 1]);
    bool is_right = bytes[BYTES - 1] == (BYTES - 1) % 251;
    return dao_memory_release(memory) == DAO_OK && dao_finalize() == DAO_OK && is_right ? 0 : fail("end");
}

int main(void)
{
    int sockets[2];
    int status = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)close(sockets[0]);
        return take(sockets[1]);
    }
    (void)close(sockets[1]); /* a read then notices that the child has ended */
    int result = child > 0 ? give(sockets[0]) : 1;
    (void)close(sockets[0]); /* a child that still waits is released */
    return waitpid(child, &status, 0) == child && status == 0 ? result : 1;
}
