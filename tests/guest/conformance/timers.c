/* Timers that send signals: POSIX timers by each clock, and interval timers by processor time. */
#include "conform.h"
#include <pthread.h>

/* `struct sigevent`, the same for all libraries. */
struct event { uint64_t value; int signal, notify, thread, rest[11]; };
/* `struct itimerspec` of the kernel. */
struct setting { int64_t interval_s, interval_ns, value_s, value_ns; };
#define NOTICE(...) (&(struct event){__VA_ARGS__})
#define SETTING(...) (&(struct setting){__VA_ARGS__})
#define MILLISECONDS(n) 0, (n) * 1000000L

static int id, second_id;
static volatile int handled;
static siginfo_t told;
static struct setting was;
static volatile int stop, other_tid;

static void note(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    told = *info;
    handled++;
}

static void handle(int signal) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigaction(signal, &action, 0);
}

static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static void block(int signal) {
    sigset_t set = only(signal);
    pthread_sigmask(SIG_BLOCK, &set, 0);
}

/* Takes a signal, or says that none comes. */
static int take(int signal, int milliseconds) {
    sigset_t set = only(signal);
    struct timespec limit = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    return sigtimedwait(&set, &told, &limit) == signal;
}

/* What a timer's signal says. `si_timerid`, `si_overrun` and `si_value` are where all libraries have pid, uid and value. */
static void show_told(void) {
    say(" | signal %d code %d id %d value %lx", told.si_signo, told.si_code, (int)told.si_pid, (long)told.si_value.sival_ptr);
}
static int overrun(void) { return (int)told.si_uid; }

static void use_processor(long milliseconds) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    long until = at.tv_sec * 1000000000 + at.tv_nsec + milliseconds * 1000000;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    while (at.tv_sec * 1000000000 + at.tv_nsec < until);
}

/* The signal comes while the processor is used. Not within so many milliseconds: where a host is busy, a core that it emulates may take no interrupt for tens
   of them, and a timer by processor time is looked at by interrupts alone. */
static int take_in_use(long milliseconds) {
    for (int turn = 0; turn < 100; turn++) {
        use_processor(milliseconds);
        if (take(SIGUSR1, 5))
            return 1;
    }
    return 0;
}

static long create(int clock) { return CALL(timer_create, clock, NOTICE(0x5555, SIGUSR1, SIGEV_SIGNAL), &id); }
static long arm(int flags, struct setting *setting) { return CALL(timer_settime, id, flags, setting, 0); }

/* A timer by that clock expires, and what its signal says. */
static void expires(int clock) {
    block(SIGUSR1);
    result(create(clock));
    result(arm(0, SETTING(0, 0, MILLISECONDS(2))));
    say(take_in_use(60) ? " | came" : " | did not come");
    show_told();
    say(" | overrun %d", overrun());
    say(take(SIGUSR1, 0) ? " | again" : " | once");
}

/* A timer that is set a second ahead, by the time that a clock shows. */
static void expires_at(int clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    block(SIGUSR1);
    create(clock);
    result(arm(TIMER_ABSTIME, SETTING(0, 0, now.tv_sec + 1, now.tv_nsec)));
    CALL(timer_gettime, id, &was);
    say(" | %s", was.value_s == 0 && was.value_ns > 0 ? "less than a second" : was.value_s == 1 ? "a second" : "none");
    result(arm(TIMER_ABSTIME, SETTING(0, 0, now.tv_sec, now.tv_nsec + 1 < 1000000000 ? now.tv_nsec + 1 : now.tv_nsec)));
    say(take_in_use(30) ? " | came" : " | did not come");
}

static void *use_until_stopped(void *unused) {
    other_tid = (int)CALL(gettid);
    while (!stop)
        ;
    return unused;
}

static pthread_t begin_thread(void) {
    pthread_t thread;
    pthread_create(&thread, 0, use_until_stopped, 0);
    while (!other_tid)
        usleep(1000);
    return thread;
}

static void *pause_for_ever(void *unused) {
    other_tid = (int)CALL(gettid);
    for (;;)
        pause();
    return unused;
}

static volatile int calls, value_told;

static void called(union sigval value) {
    value_told = value.sival_int;
    calls++;
}

static void creating(void) {
    static const int clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_BOOTTIME, CLOCK_TAI};
    C(timer_create, CLOCK_REALTIME, 0, &id)
    C(timer_create, CLOCK_MONOTONIC, 0, &id)
    C(timer_create, CLOCK_BOOTTIME, 0, &id)
    C(timer_create, CLOCK_TAI, 0, &id)
    C(timer_create, CLOCK_PROCESS_CPUTIME_ID, 0, &id)
    C(timer_create, CLOCK_THREAD_CPUTIME_ID, 0, &id)
    C(timer_create, CLOCK_MONOTONIC_RAW, 0, &id)
    C(timer_create, CLOCK_REALTIME_COARSE, 0, &id)
    C(timer_create, CLOCK_MONOTONIC_COARSE, 0, &id)
    C(timer_create, CLOCK_REALTIME_ALARM, 0, &id)
    C(timer_create, CLOCK_BOOTTIME_ALARM, 0, &id)
    C(timer_create, 10, 0, &id)
    C(timer_create, 99, 0, &id)
    C(timer_create, ~getpid() << 3 | 2, 0, &id)
    C(timer_create, ~getpid() << 3 | 1, 0, &id)
    C(timer_create, ~getpid() << 3, 0, &id)
    C(timer_create, ~getpid() << 3 | 3, 0, &id)
    C(timer_create, ~getpid() << 3 | 4 | 3, 0, &id)
    C(timer_create, ~getpid() << 3 | 4 | 2, 0, &id)
    C(timer_create, ~getppid() << 3 | 2, 0, &id)
    C(timer_create, ~getppid() << 3 | 4 | 2, 0, &id)
    C(timer_create, ~999999 << 3 | 2, 0, &id)
    C(timer_create, CLOCK_REALTIME, BAD, &id)
    C(timer_create, CLOCK_REALTIME, 0, BAD)
    C(timer_create, CLOCK_REALTIME, 0, 0)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGUSR1, SIGEV_SIGNAL), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, 0, SIGEV_SIGNAL), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, -1, SIGEV_SIGNAL), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, 64, SIGEV_SIGNAL), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, 65, SIGEV_SIGNAL), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGKILL, SIGEV_SIGNAL), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGUSR1, SIGEV_THREAD), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, 0, SIGEV_THREAD), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, 0, SIGEV_NONE), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, 99, SIGEV_NONE), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGUSR1, 3), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGUSR1, 8), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGUSR1, SIGEV_THREAD_ID, getpid()), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGUSR1, SIGEV_THREAD_ID, getppid()), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGUSR1, SIGEV_THREAD_ID, 0), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, 0, SIGEV_THREAD_ID, getpid()), &id)
    C(timer_create, CLOCK_REALTIME, NOTICE(0, SIGUSR1, SIGEV_NONE | SIGEV_THREAD_ID, getpid()), &id)
    T(timer_create, "ids", { for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) { CALL(timer_create, clocks[i], 0, &id); say(" | %d", id); } CALL(timer_delete, 2); create(CLOCK_REALTIME); say(" | %d", id); })
    /* Of a user of its own: the program runs on all islands at once. */
    R(timer_create, "more than RLIMIT_SIGPENDING", { uid_t own = 100000 + (uid_t)getpid(); setresuid(own, own, own); int made = 0; while (made < 100 && create(CLOCK_REALTIME) == 0) made++; say(" | %s", made >= 50 && made <= 64 ? "as many" : "others"); result(create(CLOCK_REALTIME)); CALL(timer_delete, 3); result(create(CLOCK_REALTIME)); result(create(CLOCK_REALTIME)); })
    T(timer_create, "not inherited by fork", { create(CLOCK_REALTIME); arm(0, SETTING(0, 0, 100, 0)); fflush(stdout); pid_t child = fork(); if (child == 0) _exit(CALL(timer_gettime, id, &was) < 0 ? 5 : 6); int status; waitpid(child, &status, 0); say(" | %d", WEXITSTATUS(status)); result(CALL(timer_gettime, id, &was)); })
    T(timer_create, "SIGEV_THREAD of the library", {
        struct sigevent call_it = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = called, .sigev_value.sival_int = 42};
        struct itimerspec often = {{0, 5000000}, {0, 5000000}};
        timer_t timer;
        result(timer_create(CLOCK_MONOTONIC, &call_it, &timer));
        result(timer_settime(timer, 0, &often, 0));
        for (int i = 0; i < 5000 && calls < 3; i++)
            usleep(1000);
        say(" | %s %d", calls >= 3 ? "called" : "not called", value_told);
        result(timer_delete(timer));
    })
    T(timer_create, "gone with execve", {
        /* The program would end by the timer's signal, which it does not handle. */
        signal(SIGUSR1, SIG_DFL);
        create(CLOCK_REALTIME);
        pid_t child = fork();
        if (child == 0) {
            create(CLOCK_REALTIME);
            arm(0, SETTING(0, 0, MILLISECONDS(150)));
            execl("/bin/sleep", "sleep", "0.4", (char *)0);
            _exit(9);
        }
        int status;
        waitpid(child, &status, 0);
        say(" | %d %d", WIFEXITED(status), WEXITSTATUS(status));
    })
}

static void setting(void) {
    E(say(" | %d", (int)was.value_s), timer_settime, (create(CLOCK_REALTIME), id), 0, SETTING(0, 0, 10, 0), &was)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, SETTING(0, 0, 10, 0), 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), TIMER_ABSTIME, SETTING(0, 0, 1L << 33, 0), 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), 1 << 20, SETTING(0, 0, 10, 0), 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, SETTING(0, 1000000000, 1, 0), 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, SETTING(0, 0, 1, 1000000000), 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, SETTING(0, 0, -1, 0), 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, SETTING(0, 0, 1, -1), 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, SETTING(-1, 0, 1, 0), 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, 0, &was)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, BAD, 0)
    C(timer_settime, (create(CLOCK_REALTIME), id), 0, SETTING(0, 0, 1, 0), BAD)
    C(timer_settime, 77, 0, SETTING(0, 0, 1, 0), 0)
    C(timer_settime, -1, 0, SETTING(0, 0, 1, 0), 0)
    C(timer_settime, 77, 0, 0, 0)
    C(timer_gettime, (create(CLOCK_REALTIME), id), &was)
    C(timer_gettime, (create(CLOCK_REALTIME), id), BAD)
    C(timer_gettime, 77, &was)
    C(timer_getoverrun, (create(CLOCK_REALTIME), id))
    C(timer_getoverrun, 77)
    C(timer_delete, (create(CLOCK_REALTIME), id))
    C(timer_delete, 77)
    C(timer_delete, -1)
    T(timer_delete, "twice", { create(CLOCK_REALTIME); result(CALL(timer_delete, id)); result(CALL(timer_delete, id)); })
    T(timer_settime, "what is left", {
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(7, 5, 1000, 0));
        result(CALL(timer_gettime, id, &was));
        say(" | every %ld.%09ld, %s", (long)was.interval_s, (long)was.interval_ns, was.value_s >= 990 && was.value_s < 1000 ? "armed" : "not armed");
        result(arm(0, SETTING(7, 5, 0, 0)));
        CALL(timer_gettime, id, &was);
        say(" | every %ld.%09ld, %ld", (long)was.interval_s, (long)was.interval_ns, (long)(was.value_s + was.value_ns));
    })
    T(timer_gettime, "SIGEV_NONE", {
        CALL(timer_create, CLOCK_MONOTONIC, NOTICE(0, 0, SIGEV_NONE), &id);
        arm(0, SETTING(0, 0, MILLISECONDS(1)));
        usleep(5000);
        CALL(timer_gettime, id, &was);
        say(" | %ld", (long)(was.value_s + was.value_ns));
        arm(0, SETTING(100, 0, MILLISECONDS(1)));
        usleep(5000);
        CALL(timer_gettime, id, &was);
        say(" | %s %d", was.value_s == 99 ? "the next" : "none", (int)CALL(timer_getoverrun, id));
    })
    T(timer_gettime, "while its signal waits", {
        block(SIGUSR1);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(0, 0, MILLISECONDS(1)));
        usleep(5000);
        CALL(timer_gettime, id, &was);
        say(" | once: %ld", (long)(was.value_s + was.value_ns));
        arm(0, SETTING(100, 0, MILLISECONDS(1)));
        usleep(5000);
        CALL(timer_gettime, id, &was);
        say(" | with an interval: %s", was.value_s == 99 ? "the next" : "none");
    })
}

static void expiring(void) {
    T(timer_settime, "CLOCK_REALTIME", { expires(CLOCK_REALTIME); })
    T(timer_settime, "CLOCK_MONOTONIC", { expires(CLOCK_MONOTONIC); })
    T(timer_settime, "CLOCK_BOOTTIME", { expires(CLOCK_BOOTTIME); })
    T(timer_settime, "CLOCK_TAI", { expires(CLOCK_TAI); })
    T(timer_settime, "CLOCK_PROCESS_CPUTIME_ID", { expires(CLOCK_PROCESS_CPUTIME_ID); })
    T(timer_settime, "CLOCK_THREAD_CPUTIME_ID", { expires(CLOCK_THREAD_CPUTIME_ID); })
    T(timer_settime, "the time in user mode of the process", { expires(~getpid() << 3 | 1); })
    T(timer_settime, "the time of a thread by its id", { expires(~getpid() << 3 | 4 | 2); })
    T(timer_settime, "TIMER_ABSTIME of CLOCK_REALTIME", { expires_at(CLOCK_REALTIME); })
    T(timer_settime, "TIMER_ABSTIME of CLOCK_MONOTONIC", { expires_at(CLOCK_MONOTONIC); })
    T(timer_settime, "TIMER_ABSTIME of CLOCK_PROCESS_CPUTIME_ID", { expires_at(CLOCK_PROCESS_CPUTIME_ID); })
    T(timer_settime, "by default SIGALRM ends", { result(CALL(timer_create, CLOCK_MONOTONIC, 0, &id)); arm(0, SETTING(0, 0, MILLISECONDS(1))); for (;;) pause(); })
    T(timer_settime, "SIGKILL", { CALL(timer_create, CLOCK_MONOTONIC, NOTICE(0, SIGKILL, SIGEV_SIGNAL), &id); arm(0, SETTING(0, 0, MILLISECONDS(1))); for (;;) pause(); })
    T(timer_settime, "the default value is the id", { block(SIGALRM); CALL(timer_create, CLOCK_MONOTONIC, 0, &second_id); CALL(timer_create, CLOCK_MONOTONIC, 0, &id); arm(0, SETTING(0, 0, MILLISECONDS(1))); take(SIGALRM, 5000); show_told(); })
    T(timer_settime, "a handler, and overruns", {
        handle(SIGUSR1);
        block(SIGUSR1);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(MILLISECONDS(10), MILLISECONDS(10)));
        usleep(105000);
        sigset_t set = only(SIGUSR1);
        sigprocmask(SIG_UNBLOCK, &set, 0);
        while (!handled)
            usleep(1000);
        sigprocmask(SIG_BLOCK, &set, 0);
        show_told();
        say(" | %s", overrun() >= 8 ? "overrun" : "not overrun");
        say(" | %s", CALL(timer_getoverrun, id) >= 0 ? "told" : "not told");
    })
    T(timer_getoverrun, "of a signal that was taken", {
        block(SIGUSR1);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(MILLISECONDS(20), MILLISECONDS(20)));
        usleep(210000);
        take(SIGUSR1, 5000);
        int first = overrun();
        say(" | %s %s", first >= 8 ? "overrun" : "not overrun", CALL(timer_getoverrun, id) == first ? "the same" : "another");
        take(SIGUSR1, 5000);
        say(" | %s", overrun() < 8 ? "less" : "not less");
    })
    T(timer_settime, "two with one ordinary signal", {
        block(SIGUSR1);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(0, 0, MILLISECONDS(1)));
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(0, 0, MILLISECONDS(5)));
        usleep(30000);
        say(take(SIGUSR1, 1000) ? " | one" : " | none");
        show_told();
        say(take(SIGUSR1, 1000) ? " | another" : " | no other");
        show_told();
        say(take(SIGUSR1, 0) ? " | a third" : " | no third");
    })
    T(timer_settime, "after a signal that is pending", {
        block(SIGUSR1);
        kill(getpid(), SIGUSR1);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(0, 0, MILLISECONDS(1)));
        usleep(10000);
        take(SIGUSR1, 0);
        say(" | %d", told.si_code);
        say(take(SIGUSR1, 0) ? " | the timer's" : " | none");
        show_told();
    })
    T(timer_settime, "set again while its signal waits", {
        block(SIGUSR1);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(0, 0, MILLISECONDS(1)));
        usleep(10000);
        arm(0, SETTING(0, 0, 100, 0));
        say(take(SIGUSR1, 10) ? " | it comes" : " | it is gone");
        arm(0, SETTING(0, 0, MILLISECONDS(1)));
        say(take(SIGUSR1, 5000) ? " | the next comes" : " | none comes");
    })
    T(timer_delete, "while its signal waits", {
        block(SIGUSR1);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(0, 0, MILLISECONDS(1)));
        usleep(10000);
        result(CALL(timer_delete, id));
        say(take(SIGUSR1, 10) ? " | it comes" : " | it is gone");
    })
    T(timer_settime, "an ignored signal that is ignored no more", {
        signal(SIGUSR1, SIG_IGN);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(MILLISECONDS(10), MILLISECONDS(10)));
        usleep(55000);
        CALL(timer_gettime, id, &was);
        say(" | %s", was.value_s == 0 && was.value_ns > 0 && was.value_ns <= 10000000 ? "goes on" : "has stopped");
        handle(SIGUSR1);
        for (int i = 0; i < 2000 && !handled; i++)
            usleep(1000);
        say(handled ? " | comes" : " | does not come");
    })
    T(timer_settime, "signalfd", {
        sigset_t set = only(SIGUSR1);
        struct signalfd_siginfo read_info;
        sigprocmask(SIG_BLOCK, &set, 0);
        int fd = signalfd(-1, &set, 0);
        create(CLOCK_MONOTONIC);
        create(CLOCK_MONOTONIC);
        arm(0, SETTING(MILLISECONDS(1), MILLISECONDS(1)));
        usleep(30000);
        result(read(fd, &read_info, sizeof read_info));
        say(" | %u %d id %u pid %u uid %u value %lx", read_info.ssi_signo, read_info.ssi_code, read_info.ssi_tid, read_info.ssi_pid, read_info.ssi_uid, (long)read_info.ssi_ptr);
        say(read_info.ssi_overrun >= 8 ? " | overrun" : " | not overrun");
    })
    T(timer_settime, "SIGEV_THREAD_ID", {
        pthread_t thread;
        pthread_create(&thread, 0, pause_for_ever, 0);
        while (!other_tid)
            usleep(1000);
        block(SIGUSR1);
        handle(SIGUSR1);
        result(CALL(timer_create, CLOCK_MONOTONIC, NOTICE(3, SIGUSR1, SIGEV_THREAD_ID, other_tid), &id));
        result(arm(0, SETTING(0, 0, MILLISECONDS(5))));
        for (int i = 0; i < 2000 && !handled; i++)
            usleep(1000);
        say(handled ? " | there" : " | nowhere");
        show_told();
    })
    T(timer_settime, "SIGEV_THREAD_ID, a thread that has ended", {
        pthread_t thread = begin_thread();
        CALL(timer_create, CLOCK_MONOTONIC, NOTICE(3, SIGUSR1, SIGEV_THREAD_ID, other_tid), &id);
        stop = 1;
        pthread_join(thread, 0);
        result(arm(0, SETTING(MILLISECONDS(1), MILLISECONDS(1))));
        usleep(20000);
        result(CALL(timer_delete, id));
    })
}

static void by_processor_time(void) {
    T(timer_settime, "another thread uses the processor", {
        block(SIGUSR1);
        pthread_t thread = begin_thread();
        (void)thread;
        create(CLOCK_PROCESS_CPUTIME_ID);
        result(arm(0, SETTING(0, 0, MILLISECONDS(30))));
        say(take(SIGUSR1, 8000) ? " | came" : " | did not come");
    })
    T(timer_settime, "the time of another thread", {
        block(SIGUSR1);
        pthread_t thread = begin_thread();
        (void)thread;
        CALL(timer_create, CLOCK_THREAD_CPUTIME_ID, NOTICE(0, SIGUSR1, SIGEV_SIGNAL), &second_id);
        CALL(timer_settime, second_id, 0, SETTING(0, 0, MILLISECONDS(30)), 0);
        result(create(~other_tid << 3 | 4 | 2));
        result(arm(0, SETTING(0, 0, MILLISECONDS(30))));
        say(take(SIGUSR1, 8000) ? " | came" : " | did not come");
        show_told();
        say(take(SIGUSR1, 50) ? " | its own as well" : " | and no other");
    })
    T(timer_settime, "the time of another process", {
        block(SIGUSR1);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            for (;;)
                ;
        result(create(~child << 3 | 2));
        result(arm(0, SETTING(0, 0, MILLISECONDS(30))));
        say(take(SIGUSR1, 8000) ? " | came" : " | did not come");
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
        result(arm(0, SETTING(0, 0, 1, 0)));
        result(CALL(timer_gettime, id, &was));
        say(" | %ld", (long)(was.value_s + was.value_ns));
        result(CALL(timer_delete, id));
    })
    T(timer_settime, "a sleeper uses no processor time", {
        block(SIGUSR1);
        create(CLOCK_PROCESS_CPUTIME_ID);
        arm(0, SETTING(0, 0, MILLISECONDS(40)));
        say(take(SIGUSR1, 150) ? " | came" : " | did not come");
        CALL(timer_gettime, id, &was);
        say(" | %s", was.value_s == 0 && was.value_ns > 0 && was.value_ns <= 40000000 ? "some left" : "none left");
    })
    for (int which = ITIMER_VIRTUAL; which <= ITIMER_PROF; which++) {
        const char *label = which == ITIMER_VIRTUAL ? "setitimer: ITIMER_VIRTUAL again and again" : "setitimer: ITIMER_PROF again and again";
        if (begin(label, NR_setitimer)) {
            int signal = which == ITIMER_VIRTUAL ? SIGVTALRM : SIGPROF;
            struct itimerval often = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}}, left;
            handle(signal);
            result(CALL(setitimer, which, &often, 0));
            int turns = 0;
            do
                use_processor(300);
            while (++turns < 10 && handled < 5);
            result(CALL(setitimer, which, &none, &left));
            say(" | %s", handled >= 5 && handled <= 40 * turns ? "about as often" : "not as often");
            say(" | %d %d | every %ld.%06ld, %s", told.si_signo, told.si_code, (long)left.it_interval.tv_sec, (long)left.it_interval.tv_usec,
                left.it_value.tv_sec == 0 && left.it_value.tv_usec > 0 ? "some left" : "none left");
            CALL(getitimer, which, &left);
            say(" | %ld", (long)(left.it_value.tv_sec + left.it_value.tv_usec + left.it_interval.tv_sec + left.it_interval.tv_usec));
            end();
        }
    }
    T(setitimer, "ITIMER_PROF of what other threads use", {
        struct itimerval soon = {{0, 0}, {0, 50000}};
        block(SIGPROF);
        pthread_t thread = begin_thread();
        (void)thread;
        CALL(setitimer, ITIMER_PROF, &soon, 0);
        say(take(SIGPROF, 8000) ? " | came" : " | did not come");
    })
    T(setitimer, "ITIMER_PROF is not inherited", { struct itimerval soon = {{0, 0}, {100, 0}}; struct itimerval left; CALL(setitimer, ITIMER_PROF, &soon, 0); fflush(stdout); pid_t child = fork(); if (child == 0) { CALL(getitimer, ITIMER_PROF, &left); _exit(left.it_value.tv_sec == 0 ? 5 : 6); } int status; waitpid(child, &status, 0); say(" | %d", WEXITSTATUS(status)); })
    C(setitimer, ITIMER_PROF, BAD, 0)
    C(setitimer, ITIMER_VIRTUAL, 0, buffer)
    C(getitimer, ITIMER_PROF, buffer)
}

void posix_timers(void) {
    creating();
    setting();
    expiring();
    by_processor_time();
}
