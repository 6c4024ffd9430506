/* All instruction sets share the C library's state: errno, streams, memory, locks, thread-local variables. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crossing.h"

static __thread int mine = 5;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

MOTET_ON(ARM) int fails(const char *path) { expect_on(ARM); return open(path, O_RDONLY); }
MOTET_ON(RISCV) int errno_there(void) { expect_on(RISCV); return errno; }
MOTET_ON(RISCV) int *my_variable(void) { expect_on(RISCV); mine += 2; return &mine; }
MOTET_ON(ARM) void print(FILE *file, const char *text) { expect_on(ARM); fprintf(file, "[%s %.3f]", text, 2.5); }

MOTET_ON(RISCV) char **lines(int count) {
    expect_on(RISCV);
    char **made = calloc((size_t)count, sizeof *made);
    for (int i = 0; i < count; i++) {
        made[i] = malloc((size_t)i * 100 + 20);
        snprintf(made[i], 20, "line %d", i);
    }
    return made;
}

MOTET_ON(ARM) int release(char **made, int count) {
    expect_on(ARM);
    int length = 0;
    for (int i = 0; i < count; i++) {
        made[i] = realloc(made[i], 5000);
        length += (int)strlen(made[i]);
        free(made[i]);
    }
    free(made);
    return length;
}

static void count_up(long *total) {
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&mutex);
        (*total)++;
        pthread_mutex_unlock(&mutex);
    }
}

MOTET_ON(X86) void *count_x86(void *total) { expect_on(X86); count_up(total); return &mine; }
MOTET_ON(ARM) void *count_arm(void *total) { expect_on(ARM); count_up(total); return &mine; }
MOTET_ON(RISCV) void *count_riscv(void *total) { expect_on(RISCV); count_up(total); return &mine; }

static void take_turns(int me) {
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 2 != me)
            pthread_cond_wait(&changed, &mutex);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
}

MOTET_ON(ARM) void *even_turns(void *unused) { expect_on(ARM); take_turns(0); return unused; }
MOTET_ON(RISCV) void *odd_turns(void *unused) { expect_on(RISCV); take_turns(1); return unused; }

/* The structure of this call differs between instruction sets. */
static void measure(const char *path) {
    struct stat status;
    int result = stat(path, &status);
    printf("%d %o %ld links, %ld bytes, block %d\n", result, (unsigned)status.st_mode, (long)status.st_nlink,
           (long)status.st_size, status.st_blksize >= 512);
}

MOTET_ON(X86) void measure_x86(const char *path) { expect_on(X86); measure(path); }
MOTET_ON(ARM) void measure_arm(const char *path) { expect_on(ARM); measure(path); }
MOTET_ON(RISCV) void measure_riscv(const char *path) { expect_on(RISCV); measure(path); }

static void files(void) {
    char path[] = "/tmp/library.XXXXXX";
    int file = mkstemp(path);
    printf("%zd\n", write(file, "some bytes", 10));
    fchmod(file, 0640);
    measure_x86(path);
    measure_arm(path);
    measure_riscv(path);
    unlink(path);
    close(file);
}

int main(void) {
    files();
    printf("%d %d\n", fails("/nonexistent") < 0, errno == ENOENT && errno_there() == ENOENT);
    printf("%d %d %d\n", *my_variable() + mine, my_variable() == &mine, mine);
    printf("before ");
    print(stdout, "from there");
    printf(" after\n%d\n", release(lines(30), 30));

    long total = 0;
    void *(*const counts[])(void *) = {count_x86, count_arm, count_riscv};
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], 0, counts[i % 3], &total);
    int others = 0;
    for (int i = 0; i < 6; i++) {
        void *variable;
        pthread_join(threads[i], &variable);
        others += variable != &mine;
    }
    printf("%ld %d\n", total, others);

    pthread_create(&threads[0], 0, even_turns, 0);
    odd_turns(0);
    pthread_join(threads[0], 0);
    printf("%d\n", turn);
    return 0;
}
