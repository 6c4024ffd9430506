// /proc shows another process's vector registers: AVX, SVE, V. A child stores its number in each register and computes for ever. Its parent reads them
// while the child runs, when it is stopped, as another user, and after its end.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_SIZE = 32 << 10, LOOKS = 3000 };

static char text[TEXT_SIZE], file[64], file_of_thread[64];

// The line of the last register. When it has its number, all registers have theirs; a slice may end before that.
#if defined __x86_64__
#define LAST "\nymm15\t\t10"
#elif defined __aarch64__
#define LAST "\nz31\t\t20"
#else
#define LAST "\nv31\t\t20"
#endif

#define SIXTEEN "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
#define THIRTY_TWO SIXTEEN ",16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"

static void hold(void) {
#if defined __x86_64__
    static unsigned char numbers[16][32];
    for (int n = 0; n < 16; n++) memset(numbers[n], n + 1, sizeof numbers[n]);
    __asm__ volatile(".irp n, " SIXTEEN "\nvmovdqu 32*\\n(%0), %%ymm\\n\n.endr\n1: pause\njmp 1b" : : "r"(numbers) : "memory");
#elif defined __aarch64__
    __asm__ volatile(".arch_extension sve\nptrue p0.b\nsetffr\n.irp n, " SIXTEEN "\nptrue p\\n\\().b\n.endr\n"
                     ".irp n, " THIRTY_TWO "\nmov z\\n\\().b, #\\n+1\n.endr\n.arch_extension nosve\n1: yield\nb 1b");
#else
    __asm__ volatile(".option push\n.option arch, +v\nvsetvli t0, zero, e8, m1, ta, ma\n"
                     ".irp n, " THIRTY_TWO "\nli t0, \\n+1\nvmv.v.x v\\n, t0\n.endr\n.option pop\n1: j 1b");
#endif
}

// One read, so that all registers are of the same moment.
static int look(const char *path) {
    int fd = open(path, O_RDONLY);
    if (fd < 0) return -1;
    ssize_t length = read(fd, text, sizeof text - 1);
    text[length < 0 ? 0 : length] = 0;
    close(fd);
    return 0;
}

int main(void) {
    pid_t child = fork();
    if (child == 0) hold();
    snprintf(file, sizeof file, "/proc/%d/vectors", child);
    snprintf(file_of_thread, sizeof file_of_thread, "/proc/%d/task/%d/vectors", child, child);
    const struct timespec pause = {0, 10000000};
    for (int n = 0; n < LOOKS; n++) {
        if (look(file) == 0 && strstr(text, LAST) && strstr(text, "it runs")) break;
        nanosleep(&pause, NULL);
    }
    printf("running\n%s", text);
    kill(child, SIGSTOP);
    waitpid(child, NULL, WUNTRACED);
    look(file_of_thread);
    printf("stopped\n%s", text);
    fflush(stdout);
    if (fork() == 0) {
        int denied = setuid(1000) == 0 && look(file) != 0 && errno == EACCES;
        _exit(denied ? 0 : 1);
    }
    int status = 0;
    wait(&status);
    printf("others may %s\n", status == 0 ? "not" : "look");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("gone %d\n", look(file) != 0 && errno == ENOENT);
    look("/proc/thread-self/vectors");
    printf("own\n%s", text);
    return 0;
}
