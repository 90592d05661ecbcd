/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes of dao and dao-bench. */
#ifndef DAO_TOOLS_EXIT_CODE_H
#define DAO_TOOLS_EXIT_CODE_H

/* Those behind DAO_EXIT_USAGE are answers of dao fit, the last one is that of what Ctrl-C ended: as shells
   have it, 128 and the signal's number. */
enum {
    DAO_EXIT_OK = 0,
    DAO_EXIT_FAILED = 1,
    DAO_EXIT_USAGE = 2,
    DAO_EXIT_FITS_SWAPPED = 3,
    DAO_EXIT_FITS_NOT = 4,
    DAO_EXIT_INTERRUPTED = 130,
};

#endif
