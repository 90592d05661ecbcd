/* SPDX-License-Identifier: Apache-2.0 */
/* Says what a file is by its content. Only a step in four JSON files is found by its name, since one of them
   leads to the others by theirs. */
#ifndef DAO_TOOLS_RECOGNISE_H
#define DAO_TOOLS_RECOGNISE_H

#include <dao/status.h>

typedef enum dao_file_form {
    /* Steps: which operator reads and writes what. */
    DAO_FILE_FORM_JSON_STEP, /* a folder, or a file of read_json_step.h; told by the name alone */
    DAO_FILE_FORM_DAO_STEP,
    DAO_FILE_FORM_TR,              /* read_tr.h */
    DAO_FILE_FORM_USE_LIST,        /* read_use_list.h */
    DAO_FILE_FORM_G10,             /* read_g10.h */
    DAO_FILE_FORM_EXECUTION_TRACE, /* read_execution_trace.h */
    /* Lifetimes. */
    DAO_FILE_FORM_LIFETIMES, /* lines of CSV or of a list */
    DAO_FILE_FORM_OBJECT,    /* an object of lifetimes */
    /* Events, which make lifetimes. */
    DAO_FILE_FORM_EVENTS, /* event_file.h */
    DAO_FILE_FORM_SNAPSHOT,
    DAO_FILE_FORM_CHROME_TRACE,
    DAO_FILE_FORM_MEMORY_TIMELINE,
    DAO_FILE_FORM_RMM,
    DAO_FILE_FORM_UMPIRE,
    DAO_FILE_FORM_ROCPROF,
    DAO_FILE_FORM_NSYS,
    DAO_FILE_FORM_SIZE_LIST,
    DAO_FILE_FORM_RECORDING, /* of DAO_RECORD */
    DAO_FILE_FORM_COUNT,
} dao_file_form_t;

/* Returns what a form is called: "a PyTorch memory snapshot". */
const char *dao_file_form_name(dao_file_form_t form);

/* Returns true if a form says which operator reads and writes what. */
bool dao_file_form_is_step(dao_file_form_t form);

/* Returns true if a file of this form may hold a step in several batch sizes. */
bool dao_file_form_has_batches(dao_file_form_t form);

/* Returns true if a form has the allocations and frees of one or several devices. */
bool dao_file_form_has_events(dao_file_form_t form);

/**
 * Recognises a file, packed or not, or a folder.
 *
 * @param path      "-": standard input.
 * @param out_form  Written on DAO_OK.
 * @return DAO_OK; DAO_ERR_UNSUPPORTED for what is known and not read, with its name and the way round;
 *         DAO_ERR_PARSE for what is not known; DAO_ERR_IO, DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: reads the beginning of the file.
 */
DAO_NODISCARD dao_status_t dao_recognise(const char *path, dao_file_form_t *out_form);

/**
 * The same for a file of which a part is asked for.
 *
 * @param batch   Which batch size, or NULL.
 * @param device  Which device, or NULL.
 * @return As dao_recognise(); also DAO_ERR_INVALID for a choice that the form does not offer.
 *
 * Threads: any. Waits: for the file. Cost: as dao_recognise().
 */
DAO_NODISCARD dao_status_t dao_recognise_part(const char *path, const char *batch, const char *device,
                                              dao_file_form_t *out_form);

#endif
