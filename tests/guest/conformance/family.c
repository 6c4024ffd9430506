/* Processes and their threads: zombies, orphans, what parents are told, and which thread takes a signal. */
#include "conform.h"
#include <pthread.h>

static int status;
static volatile int handled, taker;
static volatile int tids[3];

static void note(int signal) {
    handled = signal;
    taker = (int)CALL(gettid);
}

static void handle(int signal, int flags) {
    struct sigaction action = {.sa_handler = note, .sa_flags = flags};
    sigaction(signal, &action, 0);
}

static void block(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, 0);
}

static void *sleeper(void *number) {
    tids[(long)number] = (int)CALL(gettid);
    for (;;)
        pause();
}

static pthread_t begin_thread(void *(*runs)(void *), long number) {
    pthread_t thread;
    pthread_create(&thread, 0, runs, (void *)number);
    while (!tids[number])
        usleep(1000);
    until_asleep(tids[number]);
    return thread;
}

static void use_processor(long milliseconds) {
    struct timespec used;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < milliseconds);
}

static long milliseconds_of(const struct rusage *usage) {
    return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000 + (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
}

static pid_t zombie(void) {
    siginfo_t info;
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        _exit(3);
    }
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    return child;
}

static void zombies(void) {
    T(kill, "a zombie", { pid_t child = zombie(); result(kill(child, 0)); result(kill(child, SIGKILL)); waitpid(child, &status, 0); result(kill(child, 0)); say(" | %x", status); })
    T(kill, "a group of zombies", { pid_t child = zombie(); result(kill(-child, 0)); result(kill(-child, SIGTERM)); waitpid(child, &status, 0); result(kill(-child, 0)); })
    T(tgkill, "a zombie", { pid_t child = zombie(); result(CALL(tgkill, child, child, 0)); result(CALL(tgkill, child, child, SIGTERM)); })
    T(getpgid, "a zombie", { pid_t child = zombie(); say(CALL(getpgid, child) == child ? " | its own" : " | another"); say(CALL(getsid, child) == CALL(getsid, 0) ? " | ours" : " | another"); })
    T(prlimit64, "a zombie", { pid_t child = zombie(); result(CALL(prlimit64, child, RLIMIT_NOFILE, 0, buffer)); })
    T(setsid, "a group that it has left goes on", {
        pid_t group = getpgrp();
        setpgid(0, 0);
        pid_t child = fork();
        if (child == 0)
            for (;;) pause();
        result(setpgid(0, group));
        result(CALL(setsid));
        kill(child, SIGKILL);
    })
}

static void times_of_children(void) {
    T(wait4, "the times of a child are also its children's", {
        struct rusage usage;
        pid_t child = fork();
        if (child == 0) {
            if (fork() == 0) {
                use_processor(300);
                _exit(0);
            }
            wait(0);
            _exit(0);
        }
        CALL(wait4, child, &status, 0, &usage);
        say(milliseconds_of(&usage) >= 290 ? " | all" : " | only its own");
        CALL(getrusage, RUSAGE_CHILDREN, &usage);
        say(milliseconds_of(&usage) >= 290 ? " | all" : " | only its own");
    })
    T(getrusage, "RUSAGE_CHILDREN: not of those that nobody waits for", {
        struct rusage usage;
        signal(SIGCHLD, SIG_IGN);
        if (fork() == 0) {
            use_processor(200);
            _exit(0);
        }
        result(wait(&status));
        CALL(getrusage, RUSAGE_CHILDREN, &usage);
        say(milliseconds_of(&usage) >= 100 ? " | counted" : " | not counted");
    })
    T(wait4, "SIGCHLD ignored: a child that ends with another signal", { signal(SIGCHLD, SIG_IGN); if (CALL(clone, 0, 0, 0, 0, 0) == 0) _exit(3); some(CALL(wait4, -1, &status, __WALL, 0)); say(" | %x", status); })
    T(wait4, "__WCLONE after the child has executed a program", {
        static char *arguments[] = {"true", 0};
        pid_t child = (pid_t)CALL(clone, SIGUSR1, 0, 0, 0, 0);
        if (child == 0) {
            CALL(execve, "/bin/true", arguments, arguments + 1);
            _exit(9);
        }
        /* Until then it is a child of another kind, and there is none. */
        long ended;
        while ((ended = CALL(wait4, child, &status, 0, 0)) == -1 && errno == ECHILD && kill(child, 0) == 0)
            usleep(1000);
        some(ended);
        say(" | %x", status);
    })
}

static void *end_with_five(void *unused) {
    usleep(100000);
    CALL(exit, 5);
    return unused;
}

static void *wait_for_signal(void *number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    tids[(long)number] = (int)CALL(gettid);
    return (void *)CALL(rt_sigtimedwait, &set, 0, 0, 8);
}

static void *show_pending(void *number) {
    sigset_t set;
    block(SIGUSR1);
    tids[(long)number] = (int)CALL(gettid);
    while (!taker)
        usleep(1000);
    sigpending(&set);
    return (void *)(long)sigismember(&set, SIGUSR1);
}

static void threads(void) {
    T(exit, "the last thread's status is the process's", {
        if (fork() == 0) {
            pthread_t thread;
            pthread_create(&thread, 0, end_with_five, 0);
            CALL(exit, 4);
        }
        wait(&status);
        say(" | %x", status);
    })
    T(kill, "a thread's id names its process", { handle(SIGUSR1, 0); begin_thread(sleeper, 0); result(kill(tids[0], SIGUSR1)); while (!handled) usleep(1000); say(" | %d", handled); say(CALL(getpgid, tids[0]) == getpgrp() ? " | ours" : " | another"); result(CALL(setpgid, tids[0], 0)); })
    T(kill, "a thread that does not block the signal takes it", { handle(SIGUSR1, 0); begin_thread(sleeper, 0); block(SIGUSR1); result(kill(getpid(), SIGUSR1)); while (!handled) usleep(1000); say(taker == tids[0] ? " | it" : " | another"); })
    T(rt_sigtimedwait, "a thread waits for what all block", {
        void *got;
        block(SIGUSR1);
        begin_thread(sleeper, 0);
        pthread_t waits = begin_thread(wait_for_signal, 1);
        begin_thread(sleeper, 2);
        result(kill(getpid(), SIGUSR1));
        pthread_join(waits, &got);
        say(" | %ld", (long)got);
    })
    T(rt_sigaction, "SIG_IGN: what is pending for other threads is gone, too", {
        void *pending;
        handle(SIGUSR1, 0);
        pthread_t thread;
        pthread_create(&thread, 0, show_pending, 0);
        while (!tids[0])
            usleep(1000);
        result(CALL(tgkill, getpid(), tids[0], SIGUSR1));
        signal(SIGUSR1, SIG_IGN);
        taker = 1;
        pthread_join(thread, &pending);
        say(" | %s", pending ? "pending" : "gone");
    })
    T(rt_tgsigqueueinfo, "as if from the kernel, to another thread", { begin_thread(sleeper, 0); siginfo_t sent = {.si_code = SI_KERNEL}; result(CALL(rt_tgsigqueueinfo, getpid(), tids[0], SIGURG, &sent)); result(CALL(rt_tgsigqueueinfo, getpid(), getpid(), SIGURG, &sent)); sent.si_code = SI_QUEUE; result(CALL(rt_tgsigqueueinfo, getpid(), tids[0], SIGURG, &sent)); })
    T(get_robust_list, "of another thread, and of a parent", { begin_thread(sleeper, 0); result(CALL(get_robust_list, tids[0], buffer, buffer + 8)); result(CALL(get_robust_list, getppid(), buffer, buffer + 8)); })
    T(clock_gettime, "the processor time of another thread", { begin_thread(sleeper, 0); result(CALL(clock_gettime, ~tids[0] << 3 | 4 | 2, buffer)); result(CALL(clock_gettime, ~tids[0] << 3 | 2, buffer)); })
}

static void interrupt_soon(int flags) {
    /* Again and again: a busy host may begin the call later. */
    struct itimerval soon = {{0, 200000}, {0, 200000}};
    handle(SIGALRM, flags);
    setitimer(ITIMER_REAL, &soon, 0);
}

static uint32_t word = 5;
static void change_word(int signal) {
    (void)signal;
    word = 6;
}

static void futexes(void) {
    static struct timespec seconds = {5, 0};
    T(futex, "SA_RESTART: a wait with a timeout ends", { interrupt_soon(SA_RESTART); result(CALL(futex, &word, FUTEX_WAIT, 5, &seconds)); say(" | %d", handled); })
    T(futex, "SA_RESTART: a wait without one goes on", {
        struct sigaction action = {.sa_handler = change_word, .sa_flags = SA_RESTART};
        interrupt_soon(SA_RESTART);
        sigaction(SIGALRM, &action, 0);
        result(CALL(futex, &word, FUTEX_WAIT, 5, 0));
    })
}

/* A child in a session of its own, of which no other is a member. */
static void alone(int signal) {
    pid_t child = fork();
    if (child == 0) {
        setsid();
        raise(signal);
        _exit(9);
    }
    waitpid(child, &status, WUNTRACED);
    say(WIFSTOPPED(status) ? " | stopped by %d" : " | nothing, %d", WIFSTOPPED(status) ? WSTOPSIG(status) : WEXITSTATUS(status));
    kill(child, SIGKILL);
}

static void orphans(void) {
    T(kill, "SIGTSTP in an orphaned group", { alone(SIGTSTP); })
    T(kill, "SIGTTIN in an orphaned group", { alone(SIGTTIN); })
    T(kill, "SIGTTOU in an orphaned group", { alone(SIGTTOU); })
    T(kill, "SIGSTOP in an orphaned group", { alone(SIGSTOP); })
    T(exit, "a stopped group that becomes an orphaned one is told", {
        int ends[2];
        pipe(ends);
        if (fork() == 0) {
            setsid();
            pid_t child = fork();
            if (child == 0) {
                setpgid(0, 0);
                handle(SIGHUP, 0);
                raise(SIGSTOP);
                _exit(write(ends[1], handled == SIGHUP ? "hung up" : "goes on", 7) != 7);
            }
            waitpid(child, &status, WUNTRACED);
            _exit(0);
        }
        wait(&status);
        close(ends[1]);
        long len = read(ends[0], buffer, 7);
        say(" | %.*s", len > 0 ? (int)len : 0, buffer);
    })
    T(prctl, "PR_SET_CHILD_SUBREAPER: the next above gets them", {
        int ends[2];
        pid_t seen = 0;
        CALL(prctl, PR_SET_CHILD_SUBREAPER, 1);
        pipe(ends);
        pid_t child = fork();
        if (child == 0) {
            int mine = 7;
            CALL(prctl, PR_GET_CHILD_SUBREAPER, &mine);
            if (fork() == 0) {
                usleep(100000);
                seen = getppid();
                _exit(write(ends[1], &seen, 4) != 4);
            }
            _exit(mine);
        }
        waitpid(child, &status, 0);
        say(" | %x", status);
        read(ends[0], &seen, 4);
        say(seen == getpid() ? " | ours" : " | another's");
        some(wait(&status));
    })
    T(prctl, "PR_SET_TIMERSLACK", { result(CALL(prctl, PR_SET_TIMERSLACK, 7000)); result(CALL(prctl, PR_GET_TIMERSLACK)); pid_t child = fork(); if (child == 0) _exit(CALL(prctl, PR_GET_TIMERSLACK) == 7000); waitpid(child, &status, 0); say(" | %x", status); result(CALL(prctl, PR_SET_TIMERSLACK, 0)); result(CALL(prctl, PR_GET_TIMERSLACK)); })
}

void family(void) {
    zombies();
    times_of_children();
    threads();
    futexes();
    orphans();
}
