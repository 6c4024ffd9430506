/*
 * Counts the messages that two kernels would exchange that share no memory: a thread goes between them, and its pages follow by messages, as under
 * Popcorn's page server. For Linux on x86-64; a shared library that programs of user/npb are linked with (table.sh).
 *
 * Each page of the program's variables has a right of access at home and one away. What a side may not do is a fault, which is what brings a page.
 * Stacks, the heap and the C library's variables are not counted.
 */
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if !defined(__x86_64__) || !defined(__linux__)
#error "whether a fault was a write is known for Linux on x86-64 only"
#endif

enum { PAGE = 4096, PAGES_MAX = 1 << 20 };
/* Of the error code of a page fault. */
enum { FAULT_OF_WRITE = 2 };

/* What the sides may do with a page. A page that nobody has touched has no right at all. */
enum { NOTHING, READ, WRITE };
struct page {
    uint8_t right[2]; /* at home, away */
};

static struct page pages[PAGES_MAX];
static uintptr_t start;
static size_t count;
static int side; /* 0: home, 1: away */
static struct {
    long requests, responses, shorts, invalidates, migrates, backs, pages_out, pages_home, fresh;
} sums;

static void die(const char *what) {
    perror(what);
    _exit(3);
}

static void protect(size_t first, size_t len, int right) {
    static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    if (mprotect((void *)(start + first * PAGE), len * PAGE, protections[right]) != 0)
        die("count: mprotect");
}

/* Gives each page the rights of the side where the thread is. */
static void protect_all(void) {
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && pages[next].right[side] == pages[first].right[side];)
            next++;
        protect(first, next - first, pages[first].right[side]);
    }
}

/* The side without a copy asks for the page. The other one keeps a copy if this is a read. */
static void fetch(struct page *page, int is_write) {
    sums.requests++;
    sums.responses++;
    if (side)
        sums.pages_out++;
    else
        sums.pages_home++;
    page->right[side] = is_write ? WRITE : READ;
    page->right[!side] = is_write ? NOTHING : READ;
}

/* The side has a copy and wants to write: from away, it asks for that; home tells the other side to drop its copy. */
static void upgrade(struct page *page) {
    if (side) {
        sums.requests++;
        sums.shorts++;
    } else {
        sums.invalidates++;
    }
    page->right[side] = WRITE;
    page->right[!side] = NOTHING;
}

static void fault(struct page *page, int is_write) {
    int is_untouched = !page->right[0] && !page->right[1];
    if (is_untouched && !side) {
        page->right[side] = WRITE;
    } else if (page->right[side] == NOTHING) {
        sums.fresh += is_untouched;
        fetch(page, is_write);
    } else {
        upgrade(page);
    }
}

static void handle(int signal, siginfo_t *info, void *context) {
    uintptr_t address = (uintptr_t)info->si_addr;
    size_t index = (address - start) / PAGE;
    if (address < start || index >= count) {
        struct sigaction as_usual = {.sa_handler = SIG_DFL};
        sigaction(signal, &as_usual, NULL);
        return;
    }
    fault(&pages[index], (((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & FAULT_OF_WRITE) != 0);
    protect(index, 1, pages[index].right[side]);
}

/* What the program calls when its thread crosses. */
void migrate_arrives(int away) {
    side = away;
    if (away)
        sums.migrates++;
    else
        sums.backs++;
    protect_all();
}

/* The writable segment of the program, which is the first object, without the part that is read-only after relocation. */
static int find_variables(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size, (void)argument;
    uintptr_t first = 0, end = 0, relocated = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && (header->p_flags & PF_W)) {
            first = begin;
            end = begin + header->p_memsz;
        } else if (header->p_type == PT_GNU_RELRO) {
            relocated = begin + header->p_memsz;
        }
    }
    start = (relocated > first ? relocated : first) / PAGE * PAGE;
    count = (end - start + PAGE - 1) / PAGE;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    dl_iterate_phdr(find_variables, NULL);
    if (count > PAGES_MAX) {
        fprintf(stderr, "count: the program has too many pages\n");
        exit(3);
    }
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSEGV, &action, NULL) != 0)
        die("count: sigaction");
    protect_all();
}

__attribute__((destructor)) static void end(void) {
    if (mprotect((void *)start, count * PAGE, PROT_READ | PROT_WRITE) != 0)
        die("count: mprotect");
    long pairings = sums.migrates;
    long total = sums.requests + sums.responses + sums.shorts + 2 * sums.invalidates + sums.migrates + pairings + sums.backs;
    printf("messages %ld request %ld response %ld short %ld invalidate_pairs %ld migrate %ld pairing %ld back %ld "
           "pages_out %ld fresh %ld pages_home %ld\n",
           total, sums.requests, sums.responses, sums.shorts, sums.invalidates, sums.migrates, pairings, sums.backs,
           sums.pages_out, sums.fresh, sums.pages_home);
}
