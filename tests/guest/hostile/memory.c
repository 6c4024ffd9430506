/* mmap(2), mremap(2): files that are open for reading only, and the lowest addresses. */
#include "hostile.h"
#include <sys/mman.h>

static long map(const char *name, int flags, int protection, int kind) {
    int fd = open(name, flags);
    if (fd < 0)
        return -2;
    return mmap(NULL, 4096, protection, kind, fd, 0) == MAP_FAILED ? -1 : 0;
}

static long map_at(unsigned long address) {
    void *at = mmap((void *)address, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return at == MAP_FAILED ? -1 : 0;
}

static long move_to(unsigned long address) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)address) == MAP_FAILED ? -1 : 0;
}

static unsigned long lowest(void) {
    unsigned long lowest = 0;
    FILE *file = fopen("/proc/sys/vm/mmap_min_addr", "r");
    if (!file || fscanf(file, "%lu", &lowest) != 1)
        lowest = 65536;
    if (file)
        fclose(file);
    return lowest;
}

void attack_memory(void) {
    REFUSED(EACCES, map("readable", O_RDONLY, PROT_READ | PROT_WRITE, MAP_SHARED));
    REFUSED(EACCES, map("writable", O_WRONLY, PROT_READ, MAP_SHARED));
    REFUSED(EACCES, map("writable", O_WRONLY, PROT_WRITE, MAP_PRIVATE));
    REFUSED(EBADF, map("secret", O_PATH, PROT_READ, MAP_PRIVATE));
    ALLOWED(map("readable", O_RDONLY, PROT_READ | PROT_WRITE, MAP_PRIVATE));
    unsigned long limit = lowest();
    if (limit != 0) {
        REFUSED(EPERM, map_at(0));
        REFUSED(EPERM, map_at(limit - 4096));
        REFUSED(EPERM, move_to(0));
        REFUSED(EPERM, move_to(limit - 4096));
    }
    ALLOWED(map_at(limit + 4096));
    ALLOWED(move_to(limit + 4096));
}
