#include "ring.h"

int main(void) {
    Ring ring;
    long value;
    if (!ring_init(&ring, 4))
        return 1;
    for (long i = 0; i < 1000; i++) {
        ring_push(&ring, i);
        if (i % 3 == 0 && (!ring_pop(&ring, &value) || value > i))
            return 2;
    }
    if (ring_size(&ring) > 4)
        return 3;
    while (ring_pop(&ring, &value))
        ;
    return value == 999 ? 0 : 4;
}
