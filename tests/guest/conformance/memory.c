/* Address spaces. */
#include "conform.h"

#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define LIMITED(resource, value) ({ struct rlimit one = {value, value}; setrlimit(resource, &one); })

/* linux/mempolicy.h */
enum { MPOL_PREFERRED = 1, MPOL_BIND = 2, MPOL_LOCAL = 4, MPOL_F_ADDR = 2, MPOL_MF_STRICT = 1, MPOL_MF_MOVE = 2, MPOL_MF_MOVE_ALL = 4 };

static void show_vector(int count) { show_bytes(buffer, count); }

/* What smaps says of the mapping at an address, of these rows, in KiB. */
static void show_usage(const void *at) {
    static const char *const rows[] = {"Size:", "Rss:", "Pss:", "Shared_Clean:", "Shared_Dirty:", "Private_Clean:", "Private_Dirty:", "Anonymous:"};
    char line[512];
    int is_it = 0;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    say(" |");
    while (smaps && fgets(line, sizeof line, smaps)) {
        unsigned long start, end, value;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            is_it = start == (unsigned long)at;
        for (unsigned row = 0; is_it && row < sizeof rows / sizeof *rows; row++)
            if (!strncmp(line, rows[row], strlen(rows[row])) && sscanf(line + strlen(rows[row]), "%lu", &value) == 1)
                say(" %lu", value);
    }
    if (smaps)
        fclose(smaps);
}

/* Lines that are mappings. */
static int mappings(const char *path) {
    char line[512];
    int count = 0;
    unsigned long start, end;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        count += sscanf(line, "%lx-%lx ", &start, &end) == 2;
    if (file)
        fclose(file);
    return count;
}

/* Whether the sum of a row of smaps is what smaps_rollup says. */
static int sums_agree(const char *row) {
    char line[512];
    unsigned long sums[2] = {0, 0}, value;
    const char *paths[2] = {"/proc/self/smaps", "/proc/self/smaps_rollup"};
    for (int which = 0; which < 2; which++) {
        FILE *file = fopen(paths[which], "r");
        if (!file)
            return -1;
        while (fgets(line, sizeof line, file))
            if (!strncmp(line, row, strlen(row)) && sscanf(line + strlen(row), "%lu", &value) == 1)
                sums[which] += value;
        fclose(file);
    }
    return sums[0] == sums[1] && sums[0] != 0;
}

void memory(void) {
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0)
    S(, mmap, 0, PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_EXEC, ANON, -1, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_32BIT, -1, 0)
    T(mmap, "private memory in smaps", {
        char *at = mmap(0, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
        mprotect(at - PAGE, PAGE, PROT_NONE);
        mprotect(at + 3 * PAGE, PAGE, PROT_NONE);
        result(0);
        show_usage(at);
        at[0] = at[PAGE] = 1;
        show_usage(at);
        int status;
        int turn[2];
        pipe(turn);
        pid_t child = fork();
        if (child == 0) {
            char byte;
            read(turn[0], &byte, 1);
            _exit(0);
        }
        show_usage(at);
        at[0] = 2;
        show_usage(at);
        write(turn[1], "x", 1);
        waitpid(child, &status, 0);
        show_usage(at);
    })
    T(mmap, "smaps has what maps has", { result(mappings("/proc/self/maps") == mappings("/proc/self/smaps")); say(" | %d", mappings("/proc/self/smaps_rollup")); })
    T(mmap, "smaps_rollup has the sums", { sums_agree("Rss:"); result(sums_agree("Rss:")); say(" %d", sums_agree("Anonymous:")); })
    R(openat, "smaps of another user's process", {
        int status;
        pid_t child = fork();
        char path[64];
        if (child == 0)
            pause();
        sprintf(path, "/proc/%d/smaps", child);
        setresuid(-1, 1234, -1);
        result(open(path, O_RDONLY));
        sprintf(path, "/proc/%d/smaps_rollup", child);
        result(open(path, O_RDONLY));
        setresuid(-1, 0, -1);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    })
    C(mmap, 0, PAGE, PROT_READ, MAP_TYPE, RW, 0)
    S(, mmap, 0, 1, PROT_READ, MAP_SHARED, RW, 0)
    S(, mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, RO, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, RO, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_NORESERVE | MAP_STACK | MAP_POPULATE, -1, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_LOCKED, -1, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_GROWSDOWN, -1, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_DENYWRITE, -1, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE, RW, 0)
    S(, mmap, 0, PAGE, PROT_READ, ANON, CLOSED, 0)
    S(, mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, ZERO_FD, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, PAGE)
    S(, mmap, 0, PAGE, PROT_READ, MAP_SHARED, RW, 16 * PAGE)
    S(, mmap, 0, PAGE, 0x1000, ANON, -1, 0)
    C(mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | 0x80000, RW, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | 1 << 28, RW, 0)
    S(, mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | 1 << 28, RW, 0)
    C(mmap, 0, 1 << 21, PROT_READ | PROT_WRITE, ANON | MAP_HUGETLB, -1, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_SHARED | MAP_HUGETLB, RW, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_SHARED | MAP_GROWSDOWN | MAP_ANONYMOUS, -1, 0)
    C(mmap, 0, 0, PROT_READ, ANON, -1, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE | MAP_SHARED | 4, RW, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, RW, 1)
    C(mmap, 0, HUGE_NUMBER, PROT_READ, ANON, -1, 0)
    C(mmap, 0, -1, PROT_READ, ANON, -1, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, CLOSED, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, WO, 0)
    C(mmap, 0, PAGE, PROT_WRITE, MAP_SHARED, RO, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, PATH_FD, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, DIR_FD, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, PIPE_R, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, NULL_FD, 0)
    C(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, EVENT, 0)
    C(mmap, 1, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0)
    C(mmap, 0, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0)
    C(mmap, -PAGE, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0)
    C(mmap, in_page, PAGE, PROT_READ, ANON | MAP_FIXED_NOREPLACE, -1, 0)
    S(show_page(in_page), mmap, in_page, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0)
    S(show_page(in_page + PAGE), mmap, in_page + PAGE, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_FIXED_NOREPLACE, -1, 0)
    T(mmap, "beyond the end of a file", { char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, RW, 0); show_page(at + 20); show_page(at + PAGE); })
    T(mmap, "a truncated file", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, RW, 0); *at = 1; ftruncate(RW, 0); show_page(at); })
    T(mmap, "a shared mapping changes the file", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, RW, 0); memcpy(at, "mapped", 6); show_file(RW); })
    T(mmap, "a private mapping does not", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, RW, 0); memcpy(at, "mapped", 6); show_file(RW); })
    T(mmap, "MAP_GROWSDOWN grows", {
        char *at = mmap(0, 64 * PAGE, PROT_NONE, ANON, -1, 0);
        munmap(at, 64 * PAGE);
        char *stack = mmap(at + 60 * PAGE, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
        show_page(stack);
        show_page(stack - 8);
    })
    E(show_page(in_page), munmap, in_page, PAGE)
    E(show_page(in_page), munmap, in_page, 1)
    C(munmap, in_page + PAGE, PAGE)
    C(munmap, in_page + 1, PAGE)
    C(munmap, in_page, 0)
    C(munmap, -PAGE, 2 * PAGE)
    C(munmap, 0, HUGE_NUMBER)
    E(show_page(in_page), mprotect, in_page, PAGE, PROT_READ)
    E(show_page(in_page), mprotect, in_page, PAGE, PROT_NONE)
    E(show_page(read_only), mprotect, read_only, PAGE, PROT_READ | PROT_WRITE)
    E(show_page(in_page), mprotect, in_page, 0, PROT_NONE)
    C(mprotect, in_page, 2 * PAGE, PROT_READ)
    C(mprotect, in_page + 1, PAGE, PROT_READ)
    C(mprotect, in_page + PAGE, PAGE, PROT_READ)
    C(mprotect, in_page, -PAGE, PROT_READ)
    C(mprotect, in_page, PAGE, 0x10000)
    C(mprotect, in_page, PAGE, PROT_GROWSDOWN | PROT_READ)
    C(mprotect, in_page, PAGE, PROT_GROWSDOWN | PROT_GROWSUP | PROT_READ)
    T(mprotect, "a shared mapping of a file opened for reading", { void *at = mmap(0, PAGE, PROT_READ, MAP_SHARED, RO, 0); result(mprotect(at, PAGE, PROT_READ | PROT_WRITE)); })
    T(mprotect, "a private mapping of a file opened for reading", { void *at = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, RO, 0); result(mprotect(at, PAGE, PROT_READ | PROT_WRITE)); })
    S(, mremap, in_page, PAGE, 2 * PAGE, MREMAP_MAYMOVE)
    S(, mremap, in_page, PAGE, PAGE, 0)
    C(mremap, in_page, PAGE, 4 * PAGE, 0)
    C(mremap, in_page, PAGE, 0, MREMAP_MAYMOVE)
    C(mremap, in_page + 1, PAGE, PAGE, MREMAP_MAYMOVE)
    C(mremap, in_page + PAGE, PAGE, PAGE, MREMAP_MAYMOVE)
    C(mremap, in_page, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE)
    C(mremap, in_page, PAGE, PAGE, 1 << 20)
    C(mremap, in_page, PAGE, PAGE, MREMAP_FIXED, read_only)
    C(mremap, in_page, PAGE, PAGE, MREMAP_FIXED | MREMAP_MAYMOVE, in_page)
    C(mremap, in_page, PAGE, PAGE, MREMAP_FIXED | MREMAP_MAYMOVE, in_page + 1)
    C(mremap, in_page, 0, PAGE, MREMAP_MAYMOVE)
    S({ show_page(in_page); }, mremap, in_page, PAGE, PAGE, MREMAP_DONTUNMAP | MREMAP_MAYMOVE)
    C(mremap, in_page, PAGE, 2 * PAGE, MREMAP_DONTUNMAP | MREMAP_MAYMOVE)
    C(mremap, in_page, PAGE, HUGE_NUMBER & -PAGE, MREMAP_MAYMOVE)
    S(show_page(read_only), mremap, in_page, PAGE, PAGE, MREMAP_FIXED | MREMAP_MAYMOVE, read_only)
    S(, brk, 0)
    T(brk, "grows and shrinks", { long end = CALL(brk, 0); say(" | %ld", CALL(brk, end + 5 * PAGE) - end); show_page((char *)end + 4 * PAGE); say(" | %ld", CALL(brk, end) - end); })
    T(brk, "below its start", { long end = CALL(brk, 0); say(" | %ld", CALL(brk, 4096) - end); })
    C(madvise, in_page, PAGE, MADV_NORMAL)
    C(madvise, in_page, PAGE, MADV_RANDOM)
    C(madvise, in_page, PAGE, MADV_SEQUENTIAL)
    C(madvise, in_page, PAGE, MADV_WILLNEED)
    C(madvise, in_page, PAGE, MADV_DONTNEED)
    C(madvise, in_page, PAGE, MADV_FREE)
    C(madvise, in_page, PAGE, MADV_DONTFORK)
    C(madvise, in_page, PAGE, MADV_WIPEONFORK)
    C(madvise, in_page, PAGE, MADV_KEEPONFORK)
    C(madvise, in_page, PAGE, MADV_DONTDUMP)
    C(madvise, in_page, PAGE, MADV_COLD)
    C(madvise, in_page, PAGE, MADV_PAGEOUT)
    C(madvise, in_page, PAGE, MADV_POPULATE_READ)
    C(madvise, in_page, PAGE, MADV_POPULATE_WRITE)
    C(madvise, read_only, PAGE, MADV_POPULATE_WRITE)
    C(madvise, in_page, PAGE, MADV_REMOVE)
    C(madvise, in_page, PAGE, MADV_HWPOISON)
    C(madvise, in_page, PAGE, MADV_MERGEABLE)
    C(madvise, in_page, PAGE, 9999)
    C(madvise, in_page, 2 * PAGE, MADV_NORMAL)
    C(madvise, in_page + PAGE, PAGE, MADV_DONTNEED)
    C(madvise, in_page + 1, PAGE, MADV_DONTNEED)
    C(madvise, in_page, -PAGE, MADV_DONTNEED)
    C(madvise, in_page, 0, MADV_DONTNEED)
    T(madvise, "MADV_DONTNEED makes zeros", { *in_page = 5; result(madvise(in_page, PAGE, MADV_DONTNEED)); say(" | %d", *in_page); })
    T(madvise, "MADV_WIPEONFORK: the child has zeros", {
        *in_page = 5;
        result(madvise(in_page, PAGE, MADV_WIPEONFORK));
        int status;
        if (fork() == 0)
            _exit(*in_page);
        wait(&status);
        say(" | %d %d", WEXITSTATUS(status), *in_page);
    })
    T(madvise, "MADV_DONTFORK: the child has nothing", {
        result(madvise(in_page, PAGE, MADV_DONTFORK));
        int status;
        if (fork() == 0)
            _exit(*in_page);
        wait(&status);
        say(" | %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    })
    C(msync, in_page, PAGE, MS_SYNC)
    C(msync, in_page, PAGE, MS_ASYNC | MS_INVALIDATE)
    C(msync, in_page, PAGE, 0)
    C(msync, in_page, PAGE, MS_SYNC | MS_ASYNC)
    C(msync, in_page, PAGE, 1 << 20)
    C(msync, in_page + 1, PAGE, MS_SYNC)
    C(msync, in_page + PAGE, PAGE, MS_SYNC)
    C(msync, in_page, 0, MS_SYNC)
    C(mlock, in_page, PAGE)
    C(mlock, in_page + 5, 1)
    C(mlock, in_page + PAGE, PAGE)
    C(mlock, in_page, -PAGE)
    C(mlock, buffer, 1 << 17)
    C(mlock, in_page, 0)
    C(mlock2, in_page, PAGE, MLOCK_ONFAULT)
    C(mlock2, in_page, PAGE, 2)
    C(munlock, in_page, PAGE)
    C(munlock, in_page + PAGE, PAGE)
    C(mlockall, MCL_FUTURE)
    C(mlockall, MCL_CURRENT)
    C(mlockall, 0)
    C(mlockall, MCL_ONFAULT)
    C(mlockall, 1 << 20)
    C(munlockall)
    T(mincore, "pages that were touched", { *in_page = 1; result(CALL(mincore, in_page, PAGE, buffer)); show_vector(1); })
    C(mincore, in_page + PAGE, PAGE, buffer)
    C(mincore, in_page + 1, PAGE, buffer)
    C(mincore, in_page, PAGE, BAD)
    C(mincore, in_page, -PAGE, buffer)
    C(mincore, in_page, 0, buffer)
    T(mmap, "RLIMIT_AS", { LIMITED(RLIMIT_AS, 64 << 20); some((long)mmap(0, 256 << 20, PROT_READ, ANON, -1, 0)); some((long)mmap(0, 1 << 20, PROT_READ, ANON, -1, 0)); })
    T(mremap, "RLIMIT_AS", { LIMITED(RLIMIT_AS, 64 << 20); some((long)mremap(in_page, PAGE, 256 << 20, MREMAP_MAYMOVE)); })
    T(brk, "RLIMIT_AS", { LIMITED(RLIMIT_AS, 64 << 20); long end = CALL(brk, 0); say(" | %ld", CALL(brk, end + (256 << 20)) - end); })
    T(brk, "RLIMIT_DATA", { LIMITED(RLIMIT_DATA, 1 << 20); long end = CALL(brk, 0); say(" | %ld", CALL(brk, end + (16 << 20)) - end); })
    T(mmap, "RLIMIT_DATA", {
        LIMITED(RLIMIT_DATA, 4 << 20);
        some((long)mmap(0, 16 << 20, PROT_READ | PROT_WRITE, ANON, -1, 0));
        some((long)mmap(0, 16 << 20, PROT_READ, ANON, -1, 0));
        some((long)mmap(0, 16 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    })
    T(mprotect, "RLIMIT_DATA", { char *at = mmap(0, 16 << 20, PROT_READ, ANON, -1, 0); LIMITED(RLIMIT_DATA, 4 << 20); result(mprotect(at, 16 << 20, PROT_READ | PROT_WRITE)); })
    S(, membarrier, MEMBARRIER_CMD_QUERY, 0, 0)
    C(membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0)
    C(membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)
    C(membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)
    T(membarrier, "registered", { result(CALL(membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)); result(CALL(membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)); })
    C(membarrier, 0, 1, 0)
    C(membarrier, 1 << 20, 0, 0)
    C(mbind, in_page, PAGE, 0, 0, 0, 0)
    C(mbind, in_page, PAGE, 99, 0, 0, 0)
    C(mbind, in_page + 1, PAGE, 0, 0, 0, 0)
    C(mbind, in_page, PAGE, 0, 0, 0, 1 << 20)
    static unsigned long first_node = 1, no_node;
    static int zero, many = 63;
    C(mbind, in_page, PAGE, 0, 0, 0, MPOL_MF_MOVE)
    C(set_mempolicy, 0, 0, 0)
    C(set_mempolicy, 99, 0, 0)
    C(set_mempolicy, MPOL_BIND, 0, 0)
    C(set_mempolicy, MPOL_BIND, BAD, 64)
    C(set_mempolicy, 0, &first_node, 64)
    C(get_mempolicy, 0, 0, 0, 0, 0)
    C(get_mempolicy, 0, 0, 0, 0, 99)
    C(get_mempolicy, BAD, 0, 0, 0, 0)
    C(get_mempolicy, 0, 0, 0, in_page, 0)
    C(get_mempolicy, 0, 0, 0, 0, MPOL_F_ADDR)
    T(get_mempolicy, "what was set", { int mode = -1; unsigned long nodes[16] = {99, 99}; result(CALL(set_mempolicy, MPOL_PREFERRED, &first_node, 64)); result(CALL(get_mempolicy, &mode, nodes, 1024, 0, 0)); say(" | %d %lx %lx", mode, nodes[0], nodes[1]); result(CALL(set_mempolicy, MPOL_LOCAL, 0, 0)); result(CALL(get_mempolicy, &mode, nodes, 1024, 0, 0)); say(" | %d %lx", mode, nodes[0]); })
    T(get_mempolicy, "of a range", { int mode = -1; unsigned long nodes[16] = {99}; CALL(mbind, in_page, PAGE, MPOL_BIND, &first_node, 64, 0); result(CALL(get_mempolicy, &mode, nodes, 1024, in_page, MPOL_F_ADDR)); say(" | %d %lx", mode, nodes[0]); result(CALL(get_mempolicy, &mode, nodes, 1024, in_page + PAGE, MPOL_F_ADDR)); })
    T(get_mempolicy, "a child's", { int mode = -1; CALL(set_mempolicy, MPOL_BIND, &first_node, 64); if (fork() == 0) _exit(CALL(get_mempolicy, &mode, 0, 0, 0, 0) ? 99 : mode); wait(&mode); say(" | %d", WEXITSTATUS(mode)); })
    C(mbind, in_page, PAGE, 0, 0, 0, MPOL_MF_MOVE_ALL)
    C(mbind, in_page, PAGE, MPOL_PREFERRED, &first_node, 64, 0)
    C(mbind, in_page, PAGE, MPOL_BIND, BAD, 64, MPOL_MF_MOVE)
    C(mbind, in_page, PAGE, MPOL_BIND, &no_node, 64, MPOL_MF_MOVE)
    T(mbind, "a page that is there is to be moved", { strcpy(in_page, "moved"); result(CALL(mbind, in_page, PAGE, MPOL_BIND, &first_node, 64, MPOL_MF_MOVE | MPOL_MF_STRICT)); say(" '%s'", in_page); result(CALL(mbind, in_page, PAGE, MPOL_BIND, &first_node, 64, MPOL_MF_STRICT)); })
    C(migrate_pages, 0, 64, &first_node, &first_node)
    C(migrate_pages, 0, 64, &first_node, &no_node)
    C(migrate_pages, 0, 64, BAD, &first_node)
    C(migrate_pages, 999999, 64, &first_node, &first_node)
    C(move_pages, 0, 1, BAD, 0, buffer, 0)
    C(move_pages, 0, 0, 0, 0, 0, 0)
    T(move_pages, "where a page is", { *in_page = 1; int node = -99; result(CALL(move_pages, 0, 1, &in_page, 0, &node, 0)); say(node >= 0 ? " | on a node" : " | %d", node); })
    T(move_pages, "where nothing is", { void *nowhere = in_page + PAGE; int node = -99; result(CALL(move_pages, 0, 1, &nowhere, 0, &node, 0)); say(" | %s", errno_name(-node)); })
    T(move_pages, "to a node", { strcpy(in_page, "moved"); int node = -99; result(CALL(move_pages, 0, 1, &in_page, &zero, &node, MPOL_MF_MOVE)); say(" | %d '%s'", node, in_page); })
    T(move_pages, "to a node: where nothing is", { void *nowhere = in_page + PAGE; int node = -99; result(CALL(move_pages, 0, 1, &nowhere, &zero, &node, MPOL_MF_MOVE)); say(" | %s", errno_name(-node)); })
    C(move_pages, 0, 1, &in_page, &many, buffer, MPOL_MF_MOVE)
    C(move_pages, 0, 1, &in_page, BAD, buffer, MPOL_MF_MOVE)
    C(move_pages, 0, 1, &in_page, &zero, buffer, MPOL_MF_MOVE_ALL)
    C(move_pages, 999999, 0, 0, 0, 0, 0)
    C(move_pages, 0, 1, &in_page, 0, buffer, 1 << 20)
    T(madvise, "MADV_REMOVE makes a hole", {
        char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0);
        at[0] = at[PAGE] = 5;
        result(madvise(at, PAGE, MADV_REMOVE));
        say(" | %d %d", at[0], at[PAGE]);
        result(lseek(MEMFD, 0, SEEK_DATA));
    })
    T(madvise, "MADV_REMOVE of what may not be written", { void *at = mmap(0, PAGE, PROT_READ, MAP_SHARED, MEMFD, 0); result(madvise(at, PAGE, MADV_REMOVE)); })
    T(madvise, "MADV_REMOVE of a private mapping", { void *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, MEMFD, 0); result(madvise(at, PAGE, MADV_REMOVE)); })
    T(madvise, "MADV_REMOVE of what is shared without a name", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); *at = 5; result(madvise(at, PAGE, MADV_REMOVE)); say(" | %d", *at); })
    T(madvise, "MADV_REMOVE of what is sealed", { void *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0); fcntl(MEMFD, F_ADD_SEALS, F_SEAL_FUTURE_WRITE); result(madvise(at, PAGE, MADV_REMOVE)); })
    T(madvise, "MADV_DONTNEED of a shared mapping keeps the file", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0); *at = 5; result(madvise(at, PAGE, MADV_DONTNEED)); say(" | %d", *at); })
    T(madvise, "MADV_DONTNEED of a private mapping shows the file", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, RW, 0); *at = 5; result(madvise(at, PAGE, MADV_DONTNEED)); say(" | %d", *at); })
    C(madvise, in_page, PAGE, 1L << 32 | MADV_NORMAL)
    C(msync, in_page, PAGE, 1L << 32 | MS_SYNC)
    C(mlockall, 1L << 32 | MCL_FUTURE)
    C(msync, in_page, -PAGE, MS_SYNC)
    T(mremap, "no bytes of a shared mapping: once more", {
        char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0);
        char *more = mremap(at, 0, PAGE, MREMAP_MAYMOVE);
        some((long)more);
        if (more != MAP_FAILED) {
            *at = 5;
            say(" | %d", *more);
        }
    })
    T(mremap, "no bytes of a shared mapping that must not move", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0); result((long)mremap(at, 0, PAGE, 0)); })
    T(mremap, "a part of a mapping, to elsewhere", {
        char *at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0);
        at[PAGE] = 5;
        char *to = mremap(at + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
        some((long)to);
        say(" | %d %d", to[0], to[PAGE]);
        show_page(at);
        show_page(at + PAGE);
        show_page(at + 2 * PAGE);
    })
    T(mremap, "shorter, to elsewhere", { char *at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0); char *room = mmap(0, 4 * PAGE, PROT_NONE, ANON, -1, 0); at[0] = 5; result(mremap(at, 4 * PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) == room); say(" | %d", room[0]); show_page(at); show_page(at + 3 * PAGE); show_page(room + PAGE); })
    T(mremap, "MREMAP_DONTUNMAP leaves zeros", {
        *in_page = 5;
        char *to = (char *)CALL(mremap, in_page, PAGE, PAGE, MREMAP_DONTUNMAP | MREMAP_MAYMOVE, 0);
        some((long)to);
        if (to != MAP_FAILED)
            say(" | %d %d", *to, *in_page);
    })
    C(mremap, in_page, PAGE, PAGE, MREMAP_DONTUNMAP)
    C(mmap, 0, 2 * PAGE, PROT_READ, MAP_PRIVATE, RW, -PAGE)
    C(mmap, 0, 0, PROT_READ, MAP_PRIVATE, CLOSED, 0)
    T(mprotect, "the part before what is not mapped", { result(mprotect(in_page, 2 * PAGE, PROT_READ)); show_page(in_page); })
    T(munmap, "a part in the middle", { char *at = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0); result(munmap(at + PAGE, PAGE)); show_page(at); show_page(at + PAGE); show_page(at + 2 * PAGE); })
    T(mlock, "its pages are there", { char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0); result(mlock(at, 2 * PAGE)); CALL(mincore, at, 2 * PAGE, buffer); show_vector(2); })
    T(mlock2, "on fault: they come when they are used", { char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0); result(CALL(mlock2, at, 2 * PAGE, MLOCK_ONFAULT)); CALL(mincore, at, 2 * PAGE, buffer); show_vector(2); })
    T(mlock, "a part that is not mapped is told, and the rest is locked", { result(mlock(in_page, 2 * PAGE)); result(msync(in_page, PAGE, MS_INVALIDATE)); })
    T(mlock, "what cannot be used cannot come", { char *at = mmap(0, PAGE, PROT_NONE, ANON, -1, 0); result(mlock(at, PAGE)); result(msync(at, PAGE, MS_INVALIDATE)); })
    T(mlock, "beyond the file's end", { char *at = mmap(0, 4 * PAGE, PROT_READ, MAP_SHARED, RW, 0); result(mlock(at, 4 * PAGE)); })
    T(mlock, "RLIMIT_MEMLOCK counts all that is locked, once", {
        LIMITED(RLIMIT_MEMLOCK, 2 * PAGE);
        char *at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0);
        result(mlock(at, PAGE));
        result(mlock(at, 2 * PAGE));
        result(mlock(at + PAGE, 2 * PAGE));
        result(munlock(at, PAGE));
        result(mlock(at + PAGE, 2 * PAGE));
        result(munmap(at + PAGE, PAGE));
        result(mlock(at + 3 * PAGE, PAGE));
    })
    T(mlock, "RLIMIT_MEMLOCK of 0", { LIMITED(RLIMIT_MEMLOCK, 0); result(mlock(in_page, PAGE)); result(mlockall(MCL_FUTURE)); result(CALL(mmap, 0, PAGE, PROT_READ, ANON | MAP_LOCKED, -1, 0)); })
    R(mlock, "the superuser is not limited", { LIMITED(RLIMIT_MEMLOCK, 0); result(mlock(in_page, PAGE)); result(mlockall(MCL_CURRENT | MCL_FUTURE)); some((long)mmap(0, PAGE, PROT_READ, ANON | MAP_LOCKED, -1, 0)); })
    T(mlock, "a child has no locks", { result(mlock(in_page, PAGE)); int status; if (fork() == 0) _exit(msync(in_page, PAGE, MS_INVALIDATE) ? errno : 0); wait(&status); say(" | %s", errno_name(WEXITSTATUS(status))); result(msync(in_page, PAGE, MS_INVALIDATE)); })
    T(msync, "MS_INVALIDATE of what is locked", { mlock(in_page, PAGE); result(msync(in_page, PAGE, MS_SYNC | MS_INVALIDATE)); result(msync(in_page, PAGE, MS_SYNC)); munlock(in_page, PAGE); result(msync(in_page, PAGE, MS_INVALIDATE)); })
    T(madvise, "of what is locked", {
        mlock(in_page, PAGE);
        *in_page = 5;
        result(madvise(in_page, PAGE, MADV_DONTNEED));
        result(madvise(in_page, PAGE, MADV_FREE));
        result(madvise(in_page, PAGE, MADV_COLD));
        result(madvise(in_page, PAGE, MADV_PAGEOUT));
        result(madvise(in_page, PAGE, MADV_WILLNEED));
        say(" | %d", *in_page);
        result(madvise(in_page, PAGE, 24 /* MADV_DONTNEED_LOCKED */));
        say(" | %d", *in_page);
    })
    T(madvise, "MADV_REMOVE of what is locked", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0); mlock(at, PAGE); result(madvise(at, PAGE, MADV_REMOVE)); })
    T(mlockall, "what is there, and not what comes", { result(mlockall(MCL_CURRENT)); result(msync(in_page, PAGE, MS_INVALIDATE)); char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0); result(msync(at, PAGE, MS_INVALIDATE)); result(munlockall()); result(msync(in_page, PAGE, MS_INVALIDATE)); })
    T(mlockall, "what comes, and not what is there", {
        result(mlockall(MCL_FUTURE));
        result(msync(in_page, PAGE, MS_INVALIDATE));
        char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0);
        result(msync(at, PAGE, MS_INVALIDATE));
        CALL(mincore, at, 2 * PAGE, buffer);
        show_vector(2);
        result(munlockall());
        result(msync(at, PAGE, MS_INVALIDATE));
    })
    T(mlockall, "what comes, when it is used", { result(mlockall(MCL_FUTURE | MCL_ONFAULT)); char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0); result(msync(at, PAGE, MS_INVALIDATE)); CALL(mincore, at, 2 * PAGE, buffer); show_vector(2); })
    T(mlockall, "RLIMIT_MEMLOCK: what is there is too much", { LIMITED(RLIMIT_MEMLOCK, PAGE); result(mlockall(MCL_CURRENT)); result(mlockall(MCL_FUTURE)); })
    T(mlockall, "RLIMIT_MEMLOCK: what comes is too much", {
        LIMITED(RLIMIT_MEMLOCK, 4 * PAGE);
        result(mlockall(MCL_FUTURE));
        result((long)mmap(0, 5 * PAGE, PROT_READ, ANON, -1, 0));
        char *at = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0);
        some((long)at);
        result((long)mremap(at, 3 * PAGE, 5 * PAGE, MREMAP_MAYMOVE));
        some((long)mremap(at, 3 * PAGE, 4 * PAGE, MREMAP_MAYMOVE));
        long end = CALL(brk, 0);
        say(" | %ld", CALL(brk, end + 5 * PAGE) - end);
    })
    T(mmap, "MAP_LOCKED", { char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, ANON | MAP_LOCKED, -1, 0); result(CALL(mincore, at, 2 * PAGE, buffer)); show_vector(2); result(msync(at, PAGE, MS_INVALIDATE)); LIMITED(RLIMIT_MEMLOCK, 3 * PAGE); result((long)mmap(0, 2 * PAGE, PROT_READ, ANON | MAP_LOCKED, -1, 0)); })
    T(mmap, "MAP_POPULATE", { char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, ANON | MAP_POPULATE, -1, 0); result(CALL(mincore, at, 2 * PAGE, buffer)); show_vector(2); result(msync(at, PAGE, MS_INVALIDATE)); })
    T(mmap, "MAP_POPULATE beyond the file's end", { some((long)mmap(0, 4 * PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, RW, 0)); some((long)mmap(0, PAGE, PROT_NONE, ANON | MAP_POPULATE, -1, 0)); })
    T(mremap, "of what is locked: its pages are there", { char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, ANON | MAP_LOCKED, -1, 0); char *to = mremap(at, PAGE, 3 * PAGE, MREMAP_MAYMOVE); some((long)to); CALL(mincore, to, 3 * PAGE, buffer); show_vector(3); result(msync(to, 3 * PAGE, MS_INVALIDATE)); })
    T(mprotect, "of what is locked", { mlock(in_page, PAGE); result(mprotect(in_page, PAGE, PROT_READ)); result(msync(in_page, PAGE, MS_INVALIDATE)); })
    T(madvise, "MADV_POPULATE_WRITE: its pages are there", { char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0); result(madvise(at, 2 * PAGE, MADV_POPULATE_WRITE)); CALL(mincore, at, 2 * PAGE, buffer); show_vector(2); })
    T(madvise, "MADV_POPULATE_READ: its pages are there", { char *at = mmap(0, 2 * PAGE, PROT_READ, ANON, -1, 0); result(madvise(at, 2 * PAGE, MADV_POPULATE_READ)); result(madvise(at, 2 * PAGE, MADV_POPULATE_WRITE)); CALL(mincore, at, 2 * PAGE, buffer); show_vector(2); })
    T(madvise, "MADV_POPULATE_READ of what is not mapped, cannot be read, or is no part of the file", { result(madvise(in_page, 2 * PAGE, MADV_POPULATE_READ)); char *at = mmap(0, PAGE, PROT_NONE, ANON, -1, 0); result(madvise(at, PAGE, MADV_POPULATE_READ)); char *file = mmap(0, 4 * PAGE, PROT_READ, MAP_SHARED, RW, 0); result(madvise(file, 4 * PAGE, MADV_POPULATE_READ)); })
    T(mincore, "what was not touched", { char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, ANON, -1, 0); at[PAGE] = 1; result(CALL(mincore, at, 2 * PAGE, buffer)); show_vector(2); })
}
