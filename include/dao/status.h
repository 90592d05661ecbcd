/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * What every call answers: a code, and for this thread a sentence that names the place, the request,
 * the limit and what to change.
 */
#ifndef DAO_STATUS_H
#define DAO_STATUS_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * The codes: number, name, and the text that dao_status_text() returns. A number never changes its meaning.
 */
#define DAO_STATUS_LIST(X)                                                                                   \
    X(0, OK, "done")                                                                                         \
    X(1, ERR_INVALID, "an argument is not valid")                                                            \
    X(2, ERR_OVERFLOW, "a size or an offset does not fit its type")                                          \
    X(3, ERR_OUT_OF_BOUNDS, "outside of the memory that was named")                                          \
    X(4, ERR_NO_HOST_MEMORY, "no host memory left")                                                          \
    X(5, ERR_NO_DEVICE_MEMORY, "no device memory left")                                                      \
    X(6, ERR_LIMIT, "the limit of the place is reached")                                                     \
    X(7, ERR_FOREIGN_POINTER, "the address was not handed out here")                                         \
    X(8, ERR_INTERIOR_POINTER, "the address lies inside a block, not at its start")                          \
    X(9, ERR_DOUBLE_FREE, "the block was freed before")                                                      \
    X(10, ERR_WRONG_PLACE, "the address belongs to another place")                                           \
    X(11, ERR_NO_DEVICE, "no such device")                                                                   \
    X(12, ERR_DEVICE_LOST, "the device is lost")                                                             \
    X(13, ERR_BACKEND, "the backend's call failed")                                                          \
    X(14, ERR_UNSUPPORTED, "the backend cannot do this")                                                     \
    X(15, ERR_NOT_READY, "not finished yet")                                                                 \
    X(16, ERR_THREAD, "a thread could not be started")                                                       \
    X(17, ERR_SHUTDOWN, "the library is shut down")                                                          \
    X(18, ERR_REENTRANT, "not allowed from inside a callback or from the executor's own thread")             \
    X(19, ERR_STOPPED, "the executor is stopped")                                                            \
    X(20, ERR_NEVER_WRITTEN, "read before anything was written")                                             \
    X(21, ERR_KERNEL_TOO_LARGE, "one kernel needs more than the device holds")                               \
    X(22, ERR_HOST_FULL, "no host memory left to move tensors to")                                           \
    X(23, ERR_COPY_FAILED, "a copy between device and host failed")                                          \
    X(24, ERR_KERNEL_FAILED, "a kernel's launch function reported an error")                                 \
    X(25, ERR_BUSY, "still in use")                                                                          \
    X(26, ERR_FORKED, "the library was started in the parent process")                                       \
    X(27, ERR_CORRUPT, "an internal structure is damaged")                                                   \
    X(28, ERR_IO, "a file could not be read or written")                                                     \
    X(29, ERR_PARSE, "a file's content is not valid")                                                        \
    X(30, ERR_TOO_MANY, "there are as many of these as there can be")                                        \
    X(31, ERR_NOT_YOURS, "the block belongs to another owner, who frees it")

typedef enum dao_status {
#define DAO_STATUS_ENUMERATOR(number, name, text) DAO_##name = number,
    DAO_STATUS_LIST(DAO_STATUS_ENUMERATOR)
#undef DAO_STATUS_ENUMERATOR
} dao_status_t;

/**
 * Returns the name of a code, such as "DAO_ERR_INVALID".
 *
 * @return A static string; "DAO_ERR_UNKNOWN" for a number that is no code.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_status_name(dao_status_t status);

/**
 * Returns the text of a code, such as "an argument is not valid".
 *
 * @return A static string; "unknown status" for a number that is no code.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_status_text(dao_status_t status);

/**
 * Returns the code of this thread's last failed call, for calls such as dao_alloc() that return a pointer.
 * Ask right after the call that failed: as with errno, a later successful call may change it.
 *
 * Threads: any, each has its own. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_last_status(void);

/**
 * Returns the message of this thread's last failed call: one line of UTF-8, without a line end.
 *
 * @return Borrowed, valid until this thread's next failing call; "" if none failed yet.
 *
 * Threads: any, each has its own. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_last_message(void);

/**
 * Returns the vendor's own code (such as a cudaError_t) behind this thread's last failed call.
 *
 * @return 0 where no vendor call was behind it.
 *
 * Threads: any, each has its own. Waits: never. Cost: O(1).
 */
DAO_API int dao_last_vendor_code(void);

DAO_END_DECLS

#endif
