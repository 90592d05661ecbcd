/* SPDX-License-Identifier: Apache-2.0 */
/* What a program did with its memory, told by addresses: the events of foreign files, paired to lives.

       file says                                 the life
       alloc                                     begins here
       free of a live address                    ends here
       free of an address that is not live       was alive before the file's first event, ends here
       live at the end, and never allocated      was alive before, and is never freed
       alloc of a live address                   ends the old life here, and begins a new one

   A space is what an address is unique in: the memory of a device, or of one allocator. Each space belongs to
   a device, whose events are kept apart from those of others. Where a file tells no addresses the sizes are
   the keys: a free ends the latest life of that size.

   Invariant: the table of a space holds exactly its live tensors, each under its key once, or, by size, the
   latest of each key, from which a chain leads to the earlier ones. */
#ifndef DAO_TOOLS_LIFE_LOG_H
#define DAO_TOOLS_LIFE_LOG_H

#include "tools/read/log/event_file.h"

enum { DAO_LIFE_DEVICE_COUNT_MAX = 1024, DAO_LIFE_DEVICE_NAME_BYTES = 32 };

typedef enum dao_life_keys {
    DAO_LIFE_KEYS_ADDRESSES,
    DAO_LIFE_KEYS_SIZES,
} dao_life_keys_t;

typedef struct dao_life_device {
    char name[DAO_LIFE_DEVICE_NAME_BYTES];
    dao_event_file_t events; /* counts included */
    uint64_t peak_bytes;     /* written by dao_life_log_close() */
} dao_life_device_t;

typedef struct dao_life_log {
    dao_life_device_t *devices;
    size_t device_count, device_capacity;
    struct dao_life_space *spaces;
    size_t space_count, space_capacity;
    bool keeps_labels; /* readers say what made the tensors, where the file tells it */
} dao_life_log_t;

void dao_life_log_init(dao_life_log_t *log);
void dao_life_log_finish(dao_life_log_t *log);

/* All of these answer DAO_ERR_NO_HOST_MEMORY; DAO_ERR_LIMIT for too many devices, or events of one. */

/* Returns a device by its name, which is cut if it is long; a new one if there is none. */
DAO_NODISCARD dao_status_t dao_life_log_device(dao_life_log_t *log, const char *name, uint32_t *out_device);

/* Gives a device another name, which no other has; it is cut if it is long. */
void dao_life_log_name(dao_life_log_t *log, uint32_t device, const char *name);

/* Makes a space of a device. */
DAO_NODISCARD dao_status_t dao_life_log_space(dao_life_log_t *log, uint32_t device, dao_life_keys_t keys,
                                              uint32_t *out_space);

DAO_NODISCARD dao_status_t dao_life_log_alloc(dao_life_log_t *log, uint32_t space, uint64_t key,
                                              uint64_t size_bytes);

/* Ends a life. One that the log has not seen begin is given `size_bytes`. */
DAO_NODISCARD dao_status_t dao_life_log_free(dao_life_log_t *log, uint32_t space, uint64_t key,
                                             uint64_t size_bytes);

/* Says of a block that it is alive now: one that the log has not seen begin was alive before. */
DAO_NODISCARD dao_status_t dao_life_log_resident(dao_life_log_t *log, uint32_t space, uint64_t key,
                                                 uint64_t size_bytes);

/* Says what made the live tensor of a key, if there is one and it was not said. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_life_log_label(dao_life_log_t *log, uint32_t space, uint64_t key,
                                              const dao_event_label_t *label);

/* Returns the events of a space's device. */
dao_event_file_t *dao_life_log_events(dao_life_log_t *log, uint32_t space);

bool dao_life_log_is_live(const dao_life_log_t *log, uint32_t space, uint64_t key);

/* Returns the counts of a space's device, to be added to. */
dao_life_counts_t *dao_life_log_counts(dao_life_log_t *log, uint32_t space);

/* After the last event: counts the lives and finds the peaks. DAO_ERR_OVERFLOW for sizes that sum to more
   than 64 bits. */
DAO_NODISCARD dao_status_t dao_life_log_close(dao_life_log_t *log);

/* Returns the device of this name; for NULL the one with the highest peak. NULL: there is none. */
const dao_life_device_t *dao_life_log_find(const dao_life_log_t *log, const char *name);

bool dao_life_log_is_valid(const dao_life_log_t *log);

#endif
