/*
 * Memory for a table, which a function on the RISC-V island reads.
 *
 * To do: it lies near the island of the thread that first stores to it, and that is another one. Put it where it is used (user/include/motet.h).
 * ISLAND is the number of the island with the RISC-V core.
 */
static long *allocate(unsigned long bytes) {
    return malloc(bytes);
}
