#!/bin/bash
cat > /app/ring.c <<'END'
#include <stdlib.h>

#include "ring.h"

int ring_init(Ring *ring, size_t capacity) {
    ring->values = malloc(capacity * sizeof *ring->values);
    ring->capacity = capacity;
    ring->start = ring->count = 0;
    return ring->values != NULL;
}

void ring_push(Ring *ring, long value) {
    ring->values[(ring->start + ring->count) % ring->capacity] = value;
    if (ring->count == ring->capacity)
        ring->start = (ring->start + 1) % ring->capacity;
    else
        ring->count++;
}

int ring_pop(Ring *ring, long *value) {
    if (ring->count == 0)
        return 0;
    *value = ring->values[ring->start];
    ring->start = (ring->start + 1) % ring->capacity;
    ring->count--;
    return 1;
}

size_t ring_size(const Ring *ring) {
    return ring->count;
}
END
cd /app && sed -i 's/main\.o/main.o ring.o/' Makefile
