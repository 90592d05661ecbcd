/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a program's allocations and frees from whatever tells them: our own form (event_file.h) and those
   of other tools (tools/read/foreign). */
#ifndef DAO_TOOLS_READ_EVENTS_H
#define DAO_TOOLS_READ_EVENTS_H

#include "tools/read/form/recognise.h"
#include "tools/read/log/life_log.h"

/**
 * Reads the events of one device.
 *
 * @param path      A file; "-": standard input.
 * @param device    Its name or number; NULL: the one with the highest peak.
 * @param out_file  Written only on DAO_OK; the caller owns it, until dao_event_file_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`; DAO_ERR_UNSUPPORTED
 *         for a form without events; DAO_ERR_INVALID for a device that is not in the file, with those that
 *         are; DAO_ERR_LIMIT, DAO_ERR_OVERFLOW, DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: one at a time. Waits: for the file. Cost: memory in proportion to the file.
 */
DAO_NODISCARD dao_status_t dao_read_events(const char *path, const char *device, dao_event_file_t *out_file);

/* The same with what the file tells of what made the tensors. */
DAO_NODISCARD dao_status_t dao_read_labelled_events(const char *path, const char *device,
                                                    dao_event_file_t *out_file);

/* The same of all devices: the log is closed, and the caller finishes it. */
DAO_NODISCARD dao_status_t dao_read_event_log(const char *path, dao_life_log_t *out_log);

/* Finds a device of a closed log by its name; NULL: the one with the highest peak. DAO_ERR_INVALID names
   those that there are. */
DAO_NODISCARD dao_status_t dao_life_log_choose(const dao_life_log_t *log, const char *path,
                                               const char *device, const dao_life_device_t **out_device);

#endif
