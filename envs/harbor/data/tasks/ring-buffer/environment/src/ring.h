#ifndef RING_H
#define RING_H

#include <stddef.h>

typedef struct {
    long *values;
    size_t capacity, start, count;
} Ring;

int ring_init(Ring *ring, size_t capacity);
void ring_push(Ring *ring, long value);
int ring_pop(Ring *ring, long *value); /* 0 if it is empty */
size_t ring_size(const Ring *ring);

#endif
