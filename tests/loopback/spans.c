/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/loopback/spans.h"

#include <stdlib.h>
#include <string.h>

size_t loopback_spans_from(const loopback_spans_t *spans, const void *address)
{
    size_t low = 0;
    size_t high = spans->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const loopback_span_t *span = &spans->items[middle];
        if (span->begin + span->size_bytes > (const char *)address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

loopback_span_t *loopback_spans_at(const loopback_spans_t *spans, const void *address)
{
    size_t index = loopback_spans_from(spans, address);
    return index < spans->count && spans->items[index].begin == address ? &spans->items[index] : NULL;
}

loopback_span_t *loopback_spans_in(const loopback_spans_t *spans, const void *address, size_t size_bytes)
{
    size_t index = loopback_spans_from(spans, address);
    return index < spans->count && spans->items[index].begin < (const char *)address + size_bytes
               ? &spans->items[index]
               : NULL;
}

void loopback_spans_add(loopback_spans_t *spans, loopback_span_t span)
{
    if (spans->count == spans->capacity) {
        spans->capacity = spans->capacity * 2 + 16;
        spans->items = realloc(spans->items, spans->capacity * sizeof(*spans->items));
        if (spans->items == NULL) {
            abort(); /* the test machine is full */
        }
    }
    size_t index = loopback_spans_from(spans, span.begin);
    memmove(&spans->items[index + 1], &spans->items[index], (spans->count - index) * sizeof(*spans->items));
    spans->items[index] = span;
    spans->count++;
}

void loopback_spans_remove(loopback_spans_t *spans, const loopback_span_t *span)
{
    size_t index = (size_t)(span - spans->items);
    spans->count--;
    memmove(&spans->items[index], &spans->items[index + 1], (spans->count - index) * sizeof(*spans->items));
}

void loopback_spans_finish(loopback_spans_t *spans)
{
    free(spans->items);
    *spans = (loopback_spans_t){0};
}
