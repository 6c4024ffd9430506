/* hostile ATTACKER OTHER: makes every attempt as the user with the id ATTACKER, on processes and files of the superuser and
 * of the user with the id OTHER. Prints attempts that do not end as on Linux, and how many there were. */
#include "hostile.h"
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define PATTERN_LEN 65536

uid_t attacker, other;
gid_t guild;
pid_t of_root, of_other, near, opaque;

static int attempts, failures;

/* What a victim says about itself. */
struct state {
    unsigned long memory;
    int nice;
    struct rlimit files, data;
    cpu_set_t cores;
    pid_t group, session;
};

/* What a victim is told. */
enum { ASK, LEAVE };

/* A victim, and the pipes by which it is asked and answers. */
struct victim {
    pid_t pid;
    int ask, answer;
    struct state before;
};

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static void become(uid_t user) {
    gid_t group = user, groups[] = {guild};
    if (setgroups(user == attacker, groups) || setresgid(group, group, group) || setresuid(user, user, user))
        fail("becoming another user");
    if (getuid() != user || geteuid() != user || setuid(0) == 0)
        fail("the superuser's rights are not given up");
}

static const char *name_of(int error) {
    static char text[64];
    if (error == 0)
        return "success";
    snprintf(text, sizeof text, "%d (%s)", error, strerror(error));
    return text;
}

int begin(const char *what, int expected, int may_be_absent) {
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        /* What the superuser has open is not to be had. */
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        become(attacker);
        alarm(10);
        return 1;
    }
    attempts++;
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    int error = WEXITSTATUS(status);
    if (WIFEXITED(status) && error == expected)
        return 0;
    if (WIFEXITED(status) && may_be_absent && (error == ENOSYS || error == ENOENT))
        return 0;
    failures++;
    printf("%s: expected %s, ", what, name_of(expected));
    if (WIFEXITED(status))
        printf("got %s\n", name_of(error));
    else
        printf("ended by signal %d\n", WTERMSIG(status));
    return 0;
}

void end(long result) { _exit(result == -1 ? errno : 0); }

long fails_if(int has_failed, int error) {
    errno = error;
    return has_failed ? -1 : 0;
}

/* The program's memory that may be attacked. */
static unsigned char pattern[PATTERN_LEN];

static struct state look_at_myself(void) {
    struct state state;
    memset(&state, 0, sizeof state);
    for (int at = 0; at < PATTERN_LEN; at++)
        state.memory = state.memory * 31 + pattern[at];
    state.nice = getpriority(PRIO_PROCESS, 0);
    getrlimit(RLIMIT_NOFILE, &state.files);
    getrlimit(RLIMIT_DATA, &state.data);
    sched_getaffinity(0, sizeof state.cores, &state.cores);
    state.group = getpgrp();
    state.session = getsid(0);
    return state;
}

static struct state ask(struct victim *victim) {
    struct state state;
    memset(&state, 0xff, sizeof state);
    char byte = ASK;
    if (write(victim->ask, &byte, 1) != 1 || read(victim->answer, &state, sizeof state) != sizeof state)
        printf("process %d does not answer any more\n", (int)victim->pid);
    return state;
}

static void start(struct victim *victim, uid_t user, int own_session) {
    int questions[2], answers[2];
    if (pipe2(questions, O_CLOEXEC) || pipe2(answers, O_CLOEXEC))
        fail("pipe2");
    victim->pid = fork();
    if (victim->pid == 0) {
        close(questions[1]);
        close(answers[0]);
        if (own_session)
            setsid();
        for (int at = 0; at < PATTERN_LEN; at++)
            pattern[at] = at * 7 + user;
        if (user != 0)
            become(user);
        char byte;
        while (read(questions[0], &byte, 1) == 1 && byte == ASK) {
            struct state state = look_at_myself();
            if (write(answers[1], &state, sizeof state) != sizeof state)
                break;
        }
        _exit(0);
    }
    close(questions[0]);
    close(answers[1]);
    victim->ask = questions[1];
    victim->answer = answers[0];
    victim->before = ask(victim);
}

static void check(struct victim *victim, const char *name) {
    struct state after = ask(victim);
    if (memcmp(&after, &victim->before, sizeof after)) {
        printf("%s is not as it was\n", name);
        failures++;
    }
    char byte = LEAVE;
    int status = -1;
    if (write(victim->ask, &byte, 1) != 1 || waitpid(victim->pid, &status, 0) != victim->pid || status != 0) {
        printf("%s has ended with status %x\n", name, status);
        failures++;
    }
}

void check_shared(int is_whole) {
    if (!is_whole) {
        printf("what the superuser shares is not as it was\n");
        failures++;
    }
}

int main(int count, char **arguments) {
    if (count == 4)
        return act_as_set_id(arguments[1], arguments[2]);
    if (count != 3 || geteuid() != 0)
        return fprintf(stderr, "usage (as the superuser): hostile ATTACKER OTHER\n"), 2;
    char folder[] = "/tmp/hostile.XXXXXX";
    attacker = atoi(arguments[1]);
    other = atoi(arguments[2]);
    guild = attacker + 7;
    signal(SIGPIPE, SIG_IGN);
    /* A session of its own: the first process is none of it. */
    pid_t child = fork();
    if (child != 0) {
        int status;
        return waitpid(child, &status, 0) != child || !WIFEXITED(status) ? 2 : WEXITSTATUS(status);
    }
    setsid();
    setgroups(0, NULL);
    if (!mkdtemp(folder) || chmod(folder, 0755) || chdir(folder))
        fail(folder);
    umask(022);
    make_files("/proc/self/exe");
    unsigned long files = sum_of_files();
    struct victim victims[4];
    const char *names[] = {"the superuser's process", "the other user's process", "the superuser's process nearby",
                           "the opaque process"};
    start(&victims[0], 0, 1);
    start(&victims[1], other, 1);
    start(&victims[2], 0, 0);
    of_root = victims[0].pid, of_other = victims[1].pid, near = victims[2].pid;
    attack_by_signals();
    /* What is sent to all of the attacker's processes ends this one. */
    start(&victims[3], attacker, 1);
    opaque = victims[3].pid;
    attack_processes();
    attack_procfs();
    attack_identity();
    attack_machine();
    attack_files();
    attack_directories();
    attack_attributes();
    attack_memory();
    attack_programs();
    attack_sharing();
    for (int index = 0; index < 4; index++)
        check(&victims[index], names[index]);
    if (sum_of_files() != files) {
        printf("the files are not as they were\n");
        failures++;
    }
    if (kill(1, 0)) {
        printf("the first process has ended\n");
        failures++;
    }
    printf("%d attempts, %d not as on Linux\n", attempts, failures);
    if (chdir("/") == 0) {
        char command[64];
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (system(command) != 0)
            return 2;
    }
    return failures != 0;
}
