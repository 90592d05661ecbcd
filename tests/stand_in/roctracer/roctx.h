/* SPDX-License-Identifier: Apache-2.0 */
/* What runtime/observe/annotate_roctx.c asks of ROCTX, declared as its header does: test_annotate_roctx has
   the functions. Not installed. */
#ifndef DAO_TEST_STAND_IN_ROCTX_H
#define DAO_TEST_STAND_IN_ROCTX_H

int roctxRangePushA(const char *message);
int roctxRangePop(void);

#endif
