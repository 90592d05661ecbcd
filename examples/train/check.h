/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a set of operators computes what the loops of operators.c compute. */
#ifndef TRAIN_CHECK_H
#define TRAIN_CHECK_H

#include "operators.h"

#include <stdbool.h>

/* Runs every operator of both sets on equal numbers, on device 0, and prints those that differ. */
bool operators_agree(const operators_t *operators);

#endif
