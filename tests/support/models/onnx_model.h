/* SPDX-License-Identifier: Apache-2.0 */
/* A model in ONNX's own form, made in memory without ONNX: a network of convolutions with residual blocks and
   a classifier, with random weights. */
#ifndef DAO_TESTS_SUPPORT_ONNX_MODEL_H
#define DAO_TESTS_SUPPORT_ONNX_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ONNX_CHANNELS 3  /* of the input */
#define ONNX_CLASSES  10 /* of the output */

/* What is made. The input is "x", float, batch x 3 x height x width, all but the 3 for the caller to say; the
   output "y", batch x 10. */
typedef struct onnx_net {
    int block_count; /* of two convolutions and a sum; at most 16 */
    int width;       /* channels of each */
    uint64_t seed;
} onnx_net_t;

/* Returns the bytes of a model, the caller's to free(). */
unsigned char *onnx_model_make(const onnx_net_t *net, size_t *out_size_bytes);

#endif
