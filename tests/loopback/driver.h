/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the loopback driver share: the driver, its objects, and what every call does first.
   Included after the names of one vendor. */
#ifndef DAO_TESTS_LOOPBACK_DRIVER_H
#define DAO_TESTS_LOOPBACK_DRIVER_H

#include DAO_VENDOR_NAMES

#include "base/threads/sync.h"
#include "tests/loopback/loopback.h"
#include "tests/loopback/spans.h"

/* No device: the call is for none, or for the current one. */
#define LOOPBACK_NO_DEVICE (-1)

/* How often a blocked stream polls. */
#define LOOPBACK_LOOK_NS (UINT64_C(20) * 1000)

typedef enum loopback_kind {
    LOOPBACK_KIND_STREAM,
    LOOPBACK_KIND_EVENT,
    LOOPBACK_KIND_PAGES,
    LOOPBACK_KIND_POOL,
    LOOPBACK_KIND_SHARE, /* an allocation that was exported or imported: ipc.c */
} loopback_kind_t;

/* A stream, an event or pages. A destroyed object stays in the list until the driver is closed, so a later
   use is noticed. */
typedef struct loopback_object {
    struct loopback_object *next;
    loopback_kind_t kind;
    int device;
    bool is_gone;
    void *inner; /* the cpu backend's */
    size_t size_bytes;
    char *mapped_at;       /* a share: the allocation */
    uint32_t mapped_count; /* pages: addresses that they are behind */
    uint64_t allowed;      /* pools: the devices that may touch their memory, a bit each */
    int descriptor;        /* of memory that several processes have; DAO_NO_DESCRIPTOR */
    uint64_t id;           /* a stream: counted up, so a handle that was made again has another one */
    uint64_t capture; /* which one a stream is a part of, or an event was recorded in; 0: none. capture.c */
    bool is_spoiled;  /* a stream of a capture that a call has ended */
    bool is_forked;   /* a stream that joined a capture which it did not begin ... */
    bool is_joined;   /* ... and that is waited for there, with all its work */
    uint64_t captured_count;             /* work captured on a stream; an event: up to its record */
    struct loopback_object *recorded_on; /* an event: the stream */
} loopback_object_t;

typedef struct loopback_driver {
    dao_mutex_t lock; /* of all below; no call of the cpu backend is made under it, but to open and close */
    int open_count;   /* opened once for the process, with the settings of the first call */
    dao_backend_t *cpu;
    dao_backend_device_t *devices[DAO_DEVICE_COUNT_MAX];
    loopback_object_t *default_streams[DAO_DEVICE_COUNT_MAX]; /* for NULL; not in the list of objects */
    vendorError_t lost[DAO_DEVICE_COUNT_MAX];                 /* vendorSuccess: it is not */
    bool has_context[DAO_DEVICE_COUNT_MAX];                   /* it was made since the driver was opened */
    int32_t device_count;
    loopback_object_t *objects;
    loopback_spans_t memory;
    loopback_spans_t reserved;
    loopback_spans_t mapped;
    loopback_spans_t registered;            /* others' host memory */
    uint64_t reached[DAO_DEVICE_COUNT_MAX]; /* peers whose allocations a device may access, a bit each */

    /* Never changes: whether the environment asks for what suites find on a real device (DAO_TEST_LIKE_REAL).
       Their devices are portions of one then, and host functions run one after the other, whichever streams
       they are on. */
    bool is_like_real;

    loopback_settings_t settings;
    long calls_until_fail; /* negative: none fails */
    vendorError_t failure;
    bool has_failed; /* since the driver was opened */
    const char *failed_call;
    bool is_tolerant;
    uint64_t capture_serial; /* of the latest capture of a stream */
    uint64_t stream_serial;  /* the id of the latest stream */
    long breach_counts[LOOPBACK_RULE_COUNT];
    uint64_t call_count;    /* of the process */
    uint64_t around_count;  /* those that ask for or change what is current, and the capture mode */
    uint64_t failure_count; /* of the process */
} loopback_driver_t;

extern loopback_driver_t loopback_driver;

/* Reports a breach of a rule, and ends the program unless a test tolerates it. Returns the error to answer
   with. */
vendorError_t loopback_breach(loopback_rule_t rule, const char *call);

/* Begins a call: counts it, fails it if it is its turn, and checks that it may be made. `device` has to be
   current; LOOPBACK_NO_DEVICE: any. */
vendorError_t loopback_begin(const char *call, int device);

/* As loopback_begin(), for a call that needs no context on the device. */
vendorError_t loopback_begin_question(const char *call, int device);

/* Begins a call that asks for the current device. */
vendorError_t loopback_begin_current(const char *call);

/* Contexts, where the vendor has them: the device of this thread's one, or LOOPBACK_NO_DEVICE; another one;
   one is made. */
int loopback_context(void);
void loopback_context_set(int device);
void loopback_context_make(int device);
bool loopback_may_be_current(int device);

/* Counts a call that does no work, but asks for or changes what is current in this thread. */
void loopback_count_around(void);

/* Swaps this thread's capture mode with *mode. */
void loopback_exchange_mode(vendorStreamCaptureMode_t *mode);

/* Returns the current device of this thread. */
dao_backend_device_t *loopback_device(void);

/* Returns the error of a lost device, kept as this thread's last one; vendorSuccess: it is not lost. */
vendorError_t loopback_lost(int device);

/* Keeps an error as this thread's last one and returns it. */
vendorError_t loopback_error(vendorError_t error);

/* Returns the vendor's error for a status of the cpu backend. */
vendorError_t loopback_from(dao_status_t status);

/* Runs a host function; the calls that it makes are breaches. */
void loopback_run_host_func(void (*function)(void *), void *user);

/* Waits for a device's work, as a real driver does before it frees something. */
void loopback_wait_for_device(void);

/* Queues a host function. */
vendorError_t loopback_host_func(const char *call, vendorStream_t stream, void (*function)(void *),
                                 void *user);

/* Makes a stream wait until a word of pinned memory is `value` or after it. */
vendorError_t loopback_wait_word(const char *call, vendorStream_t stream, void *word, uint32_t value);

/* Queues copies, each in the direction that its addresses imply. */
vendorError_t loopback_queue_batch(const char *call, void *const *dsts, const void *const *srcs,
                                   const size_t *sizes, size_t count, vendorStream_t stream);

/* Finds the allocation that an address lies in, imported ones too: ipc.c. */
vendorError_t loopback_address_range(void **out_base, size_t *out_size_bytes, void *address);

/* Finds the id of a stream, as a vendor does. */
vendorError_t loopback_stream_id(vendorStream_t stream, unsigned long long *out_id);

/* Returns the object of a stream's handle; NULL is the current device's default stream. */
loopback_object_t *loopback_stream(vendorStream_t stream);

/* Adds a new object, on the current device. */
loopback_object_t *loopback_object_add(loopback_kind_t kind, void *inner, size_t size_bytes);

/* Returns true if an object is alive and of this kind; otherwise reports a breach. */
bool loopback_object_check(const loopback_object_t *object, loopback_kind_t kind, const char *call);

/* Begins a call on a stream or an event, which has to be alive, with its device current. */
vendorError_t loopback_begin_on(const char *call, const loopback_object_t *object, loopback_kind_t kind);

/* Destroys pages, mapped or not: vmm.c. */
void loopback_pages_end(loopback_object_t *pages);

/* Destroys shares: ipc.c. An exported one goes, an imported one is closed and stays with its owner. */
void loopback_share_end(loopback_object_t *share);

/* Returns true if an allocation may be freed: it was not imported, and no process has it open. Otherwise
   reports a breach: ipc.c. */
bool loopback_share_check_free(const char *call, void *address);

/* Captures: capture.c. Finds the capture that a stream is part of, as a vendor does. */
vendorError_t loopback_capture_info(vendorStream_t stream, vendorStreamCaptureStatus_t *out_status,
                                    unsigned long long *out_id);

/* Records work on a captured stream. Returns true if the stream is captured: nothing else is to be done. */
bool loopback_capture_work(loopback_object_t *stream);

/* Report a breach if a wait for a stream, or for a device (NULL), or the query of an event meets a
   capture. */
vendorError_t loopback_capture_check(const char *call, int device, const loopback_object_t *stream);
vendorError_t loopback_capture_check_event(const char *call, const loopback_object_t *event);

/* Record an event, or a wait for one, on a captured stream. Return true if the stream is captured: nothing
   else is to be done. */
bool loopback_capture_record(loopback_object_t *event, loopback_object_t *stream);
bool loopback_capture_wait(loopback_object_t *stream, const loopback_object_t *event,
                           vendorError_t *out_error);

/* Begin and end a capture, under the vendor's names. */
vendorError_t loopback_capture_begin(vendorStream_t stream);
vendorError_t loopback_capture_end(vendorStream_t stream, void **out_graph);

/* Marks an object as destroyed, before its inner object is. */
void loopback_object_remove(loopback_object_t *object);

#endif
