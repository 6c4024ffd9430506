/*
 * Calls over a link, in a region of interest for each direction. The regions begin and end on the host, where a mark moves no thread. Prints
 * `link: ok`, or what was wrong.
 */
#include <motet.h>
#include <stdio.h>

#define BOARD MOTET_ONLY("riscv64")
#define HOST MOTET_ONLY("x86_64")
#define CALLS 300

BOARD long on_board(long a) { return a + 1; }
BOARD long six_on_board(long a, long b, long c, long d, long e, long f) { return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f; }
HOST long on_host(long a) { return a + 2; }
/* One function for all marks, because the first call of a function from the board takes the long way and makes the thread an ordinary one. */
HOST void mark(long which) {
    if (which == 1)
        motet_roi_begin("from_board");
    if (which == 2)
        motet_roi_end("from_board");
}
BOARD long back(long a) { return on_host(a) + on_host(1); }

BOARD long from_board(long count) {
    long sum = on_host(0);
    mark(0);
    mark(1);
    for (long index = 0; index < count; index++)
        sum = on_host(sum);
    mark(2);
    return sum;
}

static long from_host(long count) {
    long sum = on_board(0) + six_on_board(1, 1, 1, 1, 1, 1) + back(0);
    motet_roi_begin("from_host");
    for (long index = 0; index < count; index++)
        sum = back(six_on_board(on_board(sum), 0, 0, 0, 0, 0));
    motet_roi_end("from_host");
    return sum;
}

int main(void) {
    int good = from_host(CALLS) == 1 + 21 + 5 + CALLS * 6 && from_board(CALLS) == 2 + 2 * CALLS;
    puts(good ? "link: ok" : "link: a function has another result");
    return !good;
}
