/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of other tools' files, one a form, and what they share. Each feeds a log that is empty; the
   caller closes it, and finishes it whatever the answer. */
#ifndef DAO_TOOLS_FOREIGN_H
#define DAO_TOOLS_FOREIGN_H

#include "tools/read/log/life_log.h"

/* All of these answer DAO_ERR_PARSE with the place in the file, DAO_ERR_IO, DAO_ERR_LIMIT,
   DAO_ERR_NO_HOST_MEMORY. */

/* read_snapshot.c: torch.cuda.memory._dump_snapshot(), a pickle or JSON; or the bare list of PyTorch 1.13. */
DAO_NODISCARD dao_status_t dao_read_snapshot(const char *path, dao_life_log_t *log);

/* read_chrome_trace.c: the [memory] events of torch.profiler. */
DAO_NODISCARD dao_status_t dao_read_chrome_trace(const char *path, dao_life_log_t *log);

/* read_memory_timeline.c: export_memory_timeline("x.raw.json.gz"). */
DAO_NODISCARD dao_status_t dao_read_memory_timeline(const char *path, dao_life_log_t *log);

/* read_logs.c: the CSV of RMM and of rocprofv3. */
DAO_NODISCARD dao_status_t dao_read_rmm(const char *path, dao_life_log_t *log);
DAO_NODISCARD dao_status_t dao_read_rocprof(const char *path, dao_life_log_t *log);

/* read_nsys.c: the SQLite export of Nsight Systems. DAO_ERR_UNSUPPORTED for another database, or for all
   where libsqlite3 was not there. Takes memory as the file has bytes. */
DAO_NODISCARD dao_status_t dao_read_nsys(const char *path, dao_life_log_t *log);

/* read_size_list.c: sizes, each with -1 or with the entry that is freed. */
DAO_NODISCARD dao_status_t dao_read_size_list(const char *path, dao_life_log_t *log);

/* read_recording.c: what libdao writes with DAO_RECORD=FILE. */
DAO_NODISCARD dao_status_t dao_read_recording(const char *path, dao_life_log_t *log);

/* read_umpire.c: the lines of UMPIRE_REPLAY=On. */
DAO_NODISCARD dao_status_t dao_read_umpire(const char *path, dao_life_log_t *log);

/* Reads an address, hexadecimal with 0x before it; "(nil)" and "0" are 0. False: it is none. */
bool dao_foreign_address(const char *text, uint64_t *out_address);

#endif
