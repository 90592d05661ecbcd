/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls have been made under which options: each pair is counted, and one that was never made is named.
 */
#ifndef DAO_TESTS_HARNESS_PAIRS_H
#define DAO_TESTS_HARNESS_PAIRS_H

#include "tests/harness/program.h"

/* Counts a call under all options of a config. */
void harness_pairs_note(const harness_config_t *config, harness_call_t call);

/* Prints a line for each option with its calls, and the pairs that were never made. Returns the number of
   those. */
uint32_t harness_pairs_print(bool is_long);

#endif
