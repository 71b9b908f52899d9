#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"

int main(int argc, char **argv) {
    Ring ring;
    char line[64];
    long value;
    if (argc != 2 || !ring_init(&ring, strtoul(argv[1], NULL, 10)))
        return 2;
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "push %ld", &value) == 1)
            ring_push(&ring, value);
        else if (!strncmp(line, "pop", 3)) {
            if (ring_pop(&ring, &value))
                printf("%ld\n", value);
            else
                puts("empty");
        } else if (!strncmp(line, "size", 4))
            printf("%zu\n", ring_size(&ring));
    }
    return 0;
}
