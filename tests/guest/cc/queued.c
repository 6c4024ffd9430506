/* The information of a signal: its sender, its cause, and a value. Real-time signals are queued. The output is the same on the host. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

static volatile int handled;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)context;
    handled++;
    printf("signal %d code %d value %d from %s\n", signal < SIGRTMIN ? signal : signal - SIGRTMIN + 100, info->si_code,
           info->si_code == SI_QUEUE ? info->si_value.sival_int : 0,
           info->si_pid == getpid() ? "me" : info->si_pid == getppid() ? "parent" : "another");
}

static void queue(pid_t pid, int signal, int value) {
    if (sigqueue(pid, signal, (union sigval){.sival_int = value}) != 0)
        printf("sigqueue fails\n");
}

MOTET_ON(RISCV) void send_from_riscv(pid_t pid) {
    expect_on(RISCV);
    for (int i = 0; i < 3; i++) {
        queue(pid, SIGRTMIN + 1, 10 + i);
        queue(pid, SIGUSR1, 20 + i);
    }
    kill(pid, SIGRTMIN + 1);
    queue(pid, SIGRTMIN, 30);
}

MOTET_ON(ARM) void take_on_arm(const sigset_t *set) {
    expect_on(ARM);
    sigprocmask(SIG_UNBLOCK, set, 0);
}

static sigset_t set_of(int first, int second, int third) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, first);
    sigaddset(&set, second);
    sigaddset(&set, third);
    return set;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    int signals[] = {SIGUSR1, SIGRTMIN, SIGRTMIN + 1};
    setvbuf(stdout, 0, _IONBF, 0);
    sigfillset(&action.sa_mask);
    for (int i = 0; i < 3; i++)
        sigaction(signals[i], &action, 0);
    sigset_t set = set_of(SIGUSR1, SIGRTMIN, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, 0);

    /* Queued, and delivered on another island. */
    send_from_riscv(getpid());
    take_on_arm(&set);
    printf("handled %d\n", handled);

    /* Waited for. */
    sigprocmask(SIG_BLOCK, &set, 0);
    send_from_riscv(getpid());
    siginfo_t info;
    struct timespec none = {0, 0};
    int got;
    while ((got = sigtimedwait(&set, &info, &none)) > 0)
        printf("got %d code %d value %d\n", got < SIGRTMIN ? got : got - SIGRTMIN + 100, info.si_code,
               info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
    printf("then %s\n", strerror(errno));

    /* One thread, another process, and what nobody waits for. */
    syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    sigprocmask(SIG_BLOCK, &set, 0);
    pid_t child = fork();
    if (child == 0) {
        while (sigtimedwait(&set, &info, &none) < 0)
            usleep(1000);
        printf("child: value %d from %s\n", info.si_value.sival_int, info.si_pid == getppid() ? "parent" : "another");
        queue(getpid(), SIGRTMIN, 1);
        _exit(0);
    }
    queue(child, SIGRTMIN, 40);
    waitpid(child, 0, 0);
    queue(getpid(), SIGRTMIN + 1, 50);
    signal(SIGRTMIN + 1, SIG_IGN);
    signal(SIGRTMIN + 1, SIG_DFL);
    sigaction(SIGRTMIN + 1, &action, 0);
    queue(getpid(), SIGRTMIN + 1, 51);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    printf("handled %d\n", handled);
    errno = 0;
    printf("nobody %d %s\n", sigqueue(child, SIGRTMIN, (union sigval){0}), strerror(errno));
    return 0;
}
