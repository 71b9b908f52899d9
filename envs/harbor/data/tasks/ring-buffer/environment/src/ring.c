#include <stdlib.h>

#include "ring.h"

int ring_init(Ring *ring, size_t capacity) {
    ring->values = malloc(capacity);
    ring->capacity = capacity;
    ring->start = ring->count = 0;
    return ring->values != NULL;
}

void ring_push(Ring *ring, long value) {
    ring->values[ring->start + ring->count] = value;
    ring->count++;
}

int ring_pop(Ring *ring, long *value) {
    if (ring->count == 0)
        return 0;
    *value = ring->values[ring->start];
    ring->start = ring->start + 1;
    ring->count--;
    return 1;
}
