/* The kernels' memcpy, memmove and memset (bytes.S), compared with simple loops: every length up to 150, every alignment, and moves by every
 * distance. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 150, MOVED = 80, ROOM = 320, MARGIN = 90 };

void *kernel_memcpy(void *to, const void *from, size_t length);
void *kernel_memmove(void *to, const void *from, size_t length);
void *kernel_memset(void *to, int byte, size_t length);

static uint8_t before[ROOM], expected[ROOM], room[ROOM] __attribute__((aligned(64)));
static uint8_t source[ROOM] __attribute__((aligned(64)));

static void begin(void) {
    for (int at = 0; at < ROOM; at++)
        room[at] = expected[at] = before[at] = (uint8_t)rand();
}

static void compare(const char *what, int to, int from, int length, const void *result) {
    for (int at = 0; at < ROOM; at++)
        if (room[at] != expected[at] || result != room + to) {
            printf("%s of %d bytes to %d from %d: wrong at %d\n", what, length, to, from, at);
            exit(1);
        }
}

int main(void) {
    for (int at = 0; at < ROOM; at++)
        source[at] = (uint8_t)rand();
    for (int length = 0; length <= LENGTH; length++)
        for (int to = 0; to < 8; to++) {
            for (int from = 0; from < 8; from++) {
                begin();
                for (int at = 0; at < length; at++)
                    expected[MARGIN + to + at] = source[from + at];
                compare("a copy", MARGIN + to, from, length, kernel_memcpy(room + MARGIN + to, source + from, length));
            }
            begin();
            for (int at = 0; at < length; at++)
                expected[MARGIN + to + at] = 0xa5;
            compare("filling", MARGIN + to, 0, length, kernel_memset(room + MARGIN + to, 0x7a5, length));
        }
    for (int length = 0; length <= MOVED; length++)
        for (int from = 0; from < 8; from += 3)
            for (int distance = -MARGIN; distance <= MARGIN; distance++) {
                int to = MARGIN + from + distance;
                begin();
                for (int at = 0; at < length; at++)
                    expected[to + at] = before[MARGIN + from + at];
                compare("a move", to, MARGIN + from, length, kernel_memmove(room + to, room + MARGIN + from, length));
            }
    puts("as they should be");
}
