/* What an unprivileged process must not be able to do to others: a table of attempts, each with the error that Linux gives.
 *
 * The program runs as the superuser. Each attempt is made by a child of its own that has first become the attacker, so that
 * one that succeeds does not spoil the next. At the end those that were attacked are looked at: nothing has changed. */
#ifndef HOSTILE_H
#define HOSTILE_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* The attacker's user and group, another user, and a group that the attacker is in as well. */
extern uid_t attacker, other;
extern gid_t guild;

/* Processes that are attacked: the superuser's and the other user's, both leaders of sessions; one of the superuser's in the
 * attacker's session; one of the attacker's user that was the superuser's and has executed nothing since. */
extern pid_t of_root, of_other, near, opaque;

/* Begins an attempt. In the child that makes it, which is the attacker's, the result is 1; in the parent, which has waited
 * for its end and compared, 0. */
int begin(const char *what, int expected, int may_be_absent);
/* Ends the child: `result` is what a system call returned. */
_Noreturn void end(long result);

#define TRY(expected, may_be_absent, what)                                                                             \
    do {                                                                                                               \
        if (begin(#what, expected, may_be_absent)) {                                                                   \
            errno = 0;                                                                                                 \
            end((long)(what));                                                                                         \
        }                                                                                                              \
    } while (0)
/* An attempt that fails with this error. */
#define REFUSED(error, what) TRY(error, 0, what)
/* As REFUSED, where the call or file may be one that there is not (ENOSYS, ENOENT). */
#define ABSENT_OR(error, what) TRY(error, 1, what)
/* What everybody may do: without it a refusal proves little. */
#define ALLOWED(what) TRY(0, 0, what)

/* Fails with `error` if what was attempted has had no effect. */
long fails_if(int has_failed, int error);
/* Makes the superuser's and the attacker's files below the working directory. */
void make_files(const char *own_program);
/* A sum over the superuser's and the other user's files: names, owners, modes, times of changes, contents. */
unsigned long sum_of_files(void);

void attack_by_signals(void);
void attack_processes(void);
void attack_procfs(void);
void attack_identity(void);
void attack_machine(void);
void attack_files(void);
void attack_directories(void);
void attack_attributes(void);
void attack_memory(void);
void attack_programs(void);
void attack_sharing(void);
/* What the superuser shares is as it was, or not. */
void check_shared(int is_whole);
/* What a set-user-ID copy of the program does. */
int act_as_set_id(const char *what, const char *argument);

#endif
