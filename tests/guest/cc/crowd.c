/* Many files are made and removed, many locks, and many threads, and after that the kernel's memory is as it was, but for a little. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 20000, THREADS = 2000, FEW_KIB = 2048 };

static long slab_kib(void) {
    char text[4096] = "";
    int fd = open("/proc/meminfo", O_RDONLY);
    if (read(fd, text, sizeof text - 1) < 0) exit(2);
    close(fd);
    char *found = strstr(text, "Slab:");
    return found ? atol(found + 5) : -1;
}

/* Memory goes back when cores have time for it. */
static int goes_back(const char *what, long before, long meanwhile) {
    long after = 0;
    for (int k = 0; k < 1500; k++) {
        after = slab_kib();
        if (after < before + FEW_KIB) break;
        usleep(20000);
    }
    int is_well = meanwhile > before + 2 * FEW_KIB && after < before + FEW_KIB;
    printf(is_well ? "%s: memory has gone back\n" : "%s: %ld, %ld and %ld KiB\n", what, before, meanwhile, after);
    return is_well;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int may_go;

static void *wait_for_all(void *nothing) {
    pthread_mutex_lock(&mutex);
    while (!may_go) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return nothing;
}

int main(void) {
    char name[64];
    mkdir("/tmp/crowd", 0700);
    long before = slab_kib();
    for (int i = 0; i < FILES; i++) {
        sprintf(name, "/tmp/crowd/%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0600));
    }
    long meanwhile = slab_kib();
    for (int i = 0; i < FILES; i++) {
        sprintf(name, "/tmp/crowd/%d", i);
        unlink(name);
    }
    int is_well = goes_back("files", before, meanwhile);

    int fd = open("/tmp/crowd/locks", O_CREAT | O_RDWR, 0600), locks = 0;
    struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
    for (; locks < 100000; locks++, lock.l_start = 10l * locks)
        if (fcntl(fd, F_SETLK, &lock) != 0) break;
    printf("%d locks: %s\n", locks, errno == ENOLCK ? "no more" : strerror(errno));
    struct flock all = {.l_type = F_UNLCK};
    if (fcntl(fd, F_SETLK, &all) != 0 || fcntl(fd, F_SETLK, &lock) != 0) is_well = 0, printf("no lock any more\n");

    static pthread_t threads[THREADS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    before = slab_kib();
    int made = 0;
    while (made < THREADS && pthread_create(threads + made, &small, wait_for_all, 0) == 0) made++;
    meanwhile = slab_kib();
    pthread_mutex_lock(&mutex);
    may_go = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < made; i++) pthread_join(threads[i], 0);
    is_well &= goes_back("threads", before, meanwhile);
    return !is_well;
}
