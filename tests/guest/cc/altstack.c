/* An alternate stack is in use while a handler on it has called a function of another instruction set. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "crossing.h"

enum { SIZE = 64 << 10 };
static char stack[SIZE];
static volatile sig_atomic_t inner_ran, inner_flags;

static int is_on_it(const void *at) { return (uintptr_t)at - (uintptr_t)stack < SIZE; }

MOTET_ON(RISCV) int flags_there(void) {
    expect_on(RISCV);
    stack_t now;
    return sigaltstack(0, &now) ? -1 : now.ss_flags;
}

MOTET_ON(ARM) int changes_it(void) {
    expect_on(ARM);
    stack_t other = {.ss_sp = stack, .ss_size = SIZE};
    return sigaltstack(&other, 0) ? errno : 0;
}

static void inner(int number) {
    (void)number;
    char filled[4096];
    /* On the stack of the function that was interrupted: the other one's frames stay. */
    memset(filled, 0x5a, sizeof filled);
    inner_flags = flags_there();
    inner_ran += filled[inner_flags & 1] == 0x5a;
}

MOTET_ON(RISCV) int raises(int number) { expect_on(RISCV); return raise(number); }
MOTET_ON(ARM) int raises_deeper(int number) { expect_on(ARM); return raises(number); }

static void outer(int number) {
    (void)number;
    char mine[4096];
    memset(mine, 0xa5, sizeof mine);
    printf("on it %d, flags %d, change refused %d\n", is_on_it(mine), flags_there(), changes_it() == EPERM);
    raises(SIGUSR2);
    raises_deeper(SIGUSR2);
    size_t wrong = 0;
    for (size_t at = 0; at < sizeof mine; at++) wrong += mine[at] != (char)0xa5;
    printf("inner %d with flags %d, %zu bytes changed\n", (int)inner_ran, (int)inner_flags, wrong);
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = SIZE};
    struct sigaction action = {.sa_handler = outer, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, 0);
    sigaction(SIGUSR1, &action, 0);
    action.sa_handler = inner;
    sigaction(SIGUSR2, &action, 0);
    printf("flags before %d\n", flags_there());
    raise(SIGUSR1);
    /* From a function that was called: the handler is on the alternate stack all the same. */
    raises(SIGUSR1);
    printf("flags afterwards %d, change refused %d\n", flags_there(), changes_it() == EPERM);
    return 0;
}
