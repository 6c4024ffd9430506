/* Near the island whose function reads it, whoever stores first. */
static long *allocate(unsigned long bytes) {
    return motet_malloc_on(ISLAND, bytes);
}
