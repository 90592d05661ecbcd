/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor's runtime for tests: the vendor's own symbols over the virtual devices of the cpu backend. A
   program that links it runs backends/vendor/ as on real devices, and every call is checked:

       vendor.c, vendor_pages.c, vendor_alias.c, vendor_share.c
         |   cudaMalloc, hipMalloc, or loopback_malloc in builds for cpu: the names of DAO_VENDOR_NAMES
       loopback: is the device current? is the object alive? is it allowed here?
         |
       dao_cpu_backend_ops

   The driver is opened with a configuration, by loopback_ops(), which is also what dao_backend_ops() gives in
   such a program. A breach of the rules ends the program with a message, unless a test tolerates it. */
#ifndef DAO_TESTS_LOOPBACK_LOOPBACK_H
#define DAO_TESTS_LOOPBACK_LOOPBACK_H

#include "backends/backend.h"

/* The rules that callers can break. */
#define LOOPBACK_RULE_LIST(X)                                                                                \
    X(WRONG_DEVICE, "another device is current than the one that the call is for")                           \
    X(IN_HOST_FUNCTION, "a call from inside a host function")                                                \
    X(NOT_OPEN, "a call before the driver is opened, or after it is closed")                                 \
    X(UNKNOWN, "a stream, an event, pages or an address that never was, or is gone")                         \
    X(BAD_RANGE, "bytes that are not within memory of the kind that the call says")                          \
    X(NOT_ALLOWED, "bytes that this device may not touch: access was not allowed or enabled")                \
    X(MAPPED, "pages or addresses given back, or mapped again, while they are mapped")                       \
    X(OWN_SHARE, "memory of this process opened as another one's")                                           \
    X(SHARED, "memory freed while another process has it open, or freed where it is to be closed")           \
    X(POOLED, "a pool destroyed with memory in it, or used on another device's stream")                      \
    X(CAPTURE, "a call that ends the capture of any stream that another thread is at")                       \
    X(CAPTURED, "a call that ends the capture which a stream or an event is a part of")                      \
    X(BAD_FLAGS, "flags that the library does not mean to use")                                              \
    X(LEFT, "objects that are left when the driver is closed, though no call has failed")

typedef enum loopback_rule {
#define LOOPBACK_RULE_ENUMERATOR(name, text) LOOPBACK_RULE_##name,
    LOOPBACK_RULE_LIST(LOOPBACK_RULE_ENUMERATOR)
#undef LOOPBACK_RULE_ENUMERATOR
        LOOPBACK_RULE_COUNT,
} loopback_rule_t;

/* Errors that both vendors number alike. */
#define LOOPBACK_INVALID_VALUE   1
#define LOOPBACK_ILLEGAL_ADDRESS 700 /* the device is lost */

/* Settings of a test. All zero: the devices of the configuration, and nothing fails. */
typedef struct loopback_settings {
    int device_count;   /* shown to the caller; 0: as many as there are, -1: none */
    bool has_no_driver; /* asked for its devices, it answers that the driver is too old ... */
    int driver_version; /* ... and this is its version; 0: there is none */
    int runtime_version;
    int refused_device;  /* its number + 1: it cannot be made current */
    bool has_long_names; /* devices' names fill what the vendor has for them */
    bool is_unshareable; /* pages have no file descriptors */
    bool has_no_pools;   /* no memory in stream order */
    bool has_no_peers;   /* no device can reach another one's memory */
    bool has_no_batches; /* it is too old for batches of copies */
    bool has_no_words;   /* no stream can wait for a word of memory */
    bool is_one_by_one;  /* host functions run one after the other, whichever streams they are on */
    bool refuses_tails;  /* access to what does not begin at its reservation's begin, as ROCm up to 7.2 */
    long busy_allows;    /* so many times access is not allowed, for work is queued, as WSL's driver */
} loopback_settings_t;

/* The vendor's table; its open and close are the driver's, too. */
const dao_backend_ops_t *loopback_ops(void);

/* Changes the settings and cancels a failure that was asked for. */
void loopback_set(const loopback_settings_t *settings);

/* Lets `calls` calls succeed and the next one fail with the vendor's error `error`; negative: none fails.
   After an error that loses a device, all calls with that device current fail with it until the driver is
   closed. */
void loopback_fail(long calls, int error);

/* Loses a device; the next call on it reports that. */
void loopback_lose(int device, int error);

/* Returns true if the call that had to fail was made; and which one it was: "" before. */
bool loopback_has_failed(void);
const char *loopback_failed_call(void);

/* Counts and prints the pairs of a call that was made in this process and an error of the list with which it
   never failed. *out_count gets the number of all pairs. */
long loopback_missing_cases(const int *errors, size_t error_count, long *out_count);

/* Makes a new stream with the handle of one that was destroyed, as drivers do. */
void loopback_stream_make_again(void *handle);

/* Returns the bytes in pools. */
uint64_t loopback_pool_bytes(void);

/* Returns the calls of the process so far, without those that only ask which device is current. */
uint64_t loopback_call_count(void);

/* Returns those other calls: which device is current, making one current, the capture mode. */
uint64_t loopback_around_count(void);

/* Makes a device current, as a program does. */
dao_status_t loopback_choose_device(int device);

/* Return this thread's last error, without clearing it, and its current device. */
int loopback_last_error(void);
int loopback_current_device(void);

/* Returns true if a context was created on a device since the driver was opened. */
bool loopback_has_context(int device);

/* Puts this thread into the state before its first choice of a device. */
void loopback_forget_choice(void);

/* Returns true if the capture mode of this thread is the initial one. */
bool loopback_has_own_capture_mode(void);

/* From now on breaches are counted instead of ending the program. Returns and resets the count of a rule. */
void loopback_tolerate(bool is_tolerant);
long loopback_take_breaches(loopback_rule_t rule);

#endif
