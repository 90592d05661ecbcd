/* SPDX-License-Identifier: Apache-2.0 */
/* A build without a profiler's interface. */
#include "runtime/observe/annotate.h"

const dao_annotator_t dao_annotator = {0};
