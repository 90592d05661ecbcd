/* The operators of a small transformer, forward and backward: plain loops over arrays of floats. They know nothing of DAO.

   An operator gets the sizes that it needs and the addresses of its operands, in the order that stands above its declaration,
   as "(what it reads) -> what it writes". Each adds in a fixed order: equal bytes in give equal bytes out, wherever the
   operands happen to lie. That is why a run with little memory can be compared with one with plenty, bit by bit. */
#ifndef TRAIN_OPERATORS_H
#define TRAIN_OPERATORS_H

#include <stddef.h>

/* Tokens are bytes. */
#define VOCABULARY_COUNT 256

/* What an operator has to know beside its operands. "Rows" are the tokens of all sequences: batch_count * time_count. */
typedef struct sizes {
    size_t batch_count; /* sequences */
    size_t time_count;  /* tokens of a sequence */
    size_t head_count;  /* of attention; divides in_count */
    size_t in_count;    /* floats of a row that comes in; for adamw all floats */
    size_t out_count;   /* floats of a row that goes out, where it differs */
    float weight_decay; /* adamw alone */
    const void *others; /* whom a gradient is exchanged with; of model.c alone */
} sizes_t;

typedef void (*operator_t)(const sizes_t *sizes, void *const *operands);

/* What changes from step to step, as adamw reads it. */
typedef struct schedule {
    float rate;              /* how far a step goes */
    float mean_correction;   /* 1 - 0.9^step */
    float square_correction; /* 1 - 0.99^step */
} schedule_t;

#define ADAMW_MEAN_KEPT   0.9f
#define ADAMW_SQUARE_KEPT 0.99f

/* Tokens have time_count + 1 bytes a sequence: position t is the input, position t + 1 what is to be said. */
void embed_forward(const sizes_t *sizes, void *const *operands);  /* (tokens, table, positions) -> x */
void embed_backward(const sizes_t *sizes, void *const *operands); /* (tokens, dx) -> dtable, dpositions */

void norm_forward(const sizes_t *sizes, void *const *operands); /* (x, gain, bias) -> y, moments */
void norm_backward(const sizes_t *sizes,
                   void *const *operands); /* (x, gain, moments, dy), dx += -> dgain, dbias */

void linear_forward(const sizes_t *sizes, void *const *operands);  /* (x, weight, bias) -> y */
void linear_backward(const sizes_t *sizes, void *const *operands); /* (x, weight, dy) -> dx, dweight, dbias */

void attention_forward(const sizes_t *sizes, void *const *operands); /* (qkv) -> weights, y */
void attention_backward(const sizes_t *sizes,
                        void *const *operands); /* (qkv, weights, dy) -> dqkv; workspace */
size_t attention_workspace_bytes(const sizes_t *sizes);

void gelu_forward(const sizes_t *sizes, void *const *operands);  /* (x) -> y */
void gelu_backward(const sizes_t *sizes, void *const *operands); /* (x), dy becomes dx */

void add_in_place(const sizes_t *sizes, void *const *operands); /* (x), y += x */

/* Softmax, cross entropy and their gradient in one: (tokens), logits become their gradient -> loss */
void cross_entropy(const sizes_t *sizes, void *const *operands);

void adamw(const sizes_t *sizes,
           void *const *operands); /* (schedule, gradient), value, mean, square are moved on */

#endif
