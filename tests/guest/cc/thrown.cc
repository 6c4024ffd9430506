/* Exceptions that leave functions of other instruction sets: destructors run on the way, where their frames are. */
#include <csignal>
#include <cstdint>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "crossing.h"

enum { ISAS = 3, DEPTH = 7 };
static const char *const names[] = {X86, ARM, RISCV};
static int isa_at(int depth) { return depth * depth % ISAS; } /* 0 1 1 0 1 1 0 */

static thread_local std::string said;
/* Says where it is destroyed, and how many exceptions are on their way. */
struct Guard {
    int isa, number;
    ~Guard() {
        expect_on(names[isa]);
        said += " ~" + std::to_string(number) + (std::uncaught_exceptions() ? "!" : "");
    }
};

struct Custom : std::runtime_error {
    int depth;
    explicit Custom(int depth) : std::runtime_error("custom " + std::to_string(depth)), depth(depth) {}
};
struct Other {
    std::string text;
};

/* A function of each instruction set that does `work`. The last argument is on the stack of x86-64, and of the others. */
typedef double work_t(void *with);
#define STEP(isa, name, number)                                                                                        \
    MOTET_ON(isa)                                                                                                      \
    double name(work_t *work, void *with, int a, long b, short c, char d, long e, long f, long g, double h) {          \
        Guard guard{number, a};                                                                                        \
        expect_on(isa);                                                                                                \
        return work(with) + h + a + b + c + d + e + f + g;                                                             \
    }
STEP(X86, on_x86, 0)
STEP(ARM, on_arm, 1)
STEP(RISCV, on_riscv, 2)
typedef double step_t(work_t *, void *, int, long, short, char, long, long, long, double);
static step_t *const on[] = {on_x86, on_arm, on_riscv};
static double step(int isa, work_t *work, void *with, int number) {
    return on[isa](work, with, number, 1, 2, 3, 4, 5, 6, 0.5);
}

/* Each throws to each. */
struct Pair {
    int from, to;
};
static double throws(void *with) {
    Pair &pair = *static_cast<Pair *>(with);
    if (pair.from == 2)
        throw Other{"other " + std::to_string(pair.to)};
    throw Custom(pair.to);
}
static double catches(void *with) {
    Pair &pair = *static_cast<Pair *>(with);
    double kept = pair.to + 0.125;
    Guard guard{pair.to, 10 + pair.to};
    try {
        kept += step(pair.from, throws, with, 20 + pair.from);
    } catch (const std::runtime_error &error) {
        said += std::string(" caught ") + error.what();
    } catch (const Other &other) {
        said += " caught " + other.text;
    }
    expect_on(names[pair.to]);
    return kept;
}

/* From the end of a chain of calls to the place with a number; some in between throw it once more, or another one. */
struct Chain {
    int depth, target;
};
static double links(void *with) {
    Chain &chain = *static_cast<Chain *>(with);
    int depth = chain.depth++;
    Guard guard{isa_at(depth), depth};
    if (depth == DEPTH)
        throw Custom(depth);
    try {
        return step(isa_at(depth + 1), links, with, 100 + depth);
    } catch (const Other &) {
        said += " never";
    } catch (Custom &custom) {
        expect_on(names[isa_at(depth)]);
        if (chain.target == depth) {
            said += " caught " + std::to_string(custom.depth);
            return custom.depth;
        }
        if (depth % 3 == 0)
            throw Custom(custom.depth * 10 + depth);
        custom.depth += 100;
        throw;
    }
    return 0;
}

/* A destructor that itself calls another instruction set, and catches what that throws. */
struct Busy {
    ~Busy() {
        Pair pair{1, 2};
        said += " busy";
        catches(&pair);
    }
};
static double busy(void *) {
    Busy busy;
    throw Custom(1);
}

/* Beyond these functions nobody catches. */
static double leaves_noexcept(void *with) noexcept { return step(2, throws, with, 1); }
static double leaves_all(void *with) { return step(1, throws, with, 1); }
static void ends(const char *name, work_t *work) {
    std::cout.flush();
    pid_t child = fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);
        std::set_terminate([] { _exit(std::uncaught_exceptions() + 40); });
        Pair pair{1, 1};
        step(1, work, &pair, 1);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::cout << name << ": " << (WIFEXITED(status) && WEXITSTATUS(status) >= 40 ? "terminates" : "does not") << '\n';
}

struct Base {
    virtual ~Base() = default;
    virtual int value(int number) const = 0;
};
struct Derived : Base {
    int value(int number) const override;
};
MOTET_ON(RISCV) int Derived::value(int number) const {
    expect_on(RISCV);
    return std::vector<int>{1, 2, 3}.at(number);
}

/* Without growth: a function finds itself at the same place of its stack each time. */
static std::uintptr_t place;
static double deep(void *with) {
    char here;
    auto address = reinterpret_cast<std::uintptr_t>(&here);
    if (place == 0)
        place = address;
    if (place != address) {
        std::cout << "a stack has grown\n";
        exit(1);
    }
    throw Custom(*static_cast<int *>(with));
}
static double middle(void *with) { return step(2, deep, with, 1); }
static void rounds(int count) {
    int sum = 0;
    for (int round = 0; round < count; round++)
        try {
            step(1, middle, &round, 2);
        } catch (const Custom &custom) {
            sum += custom.depth - round;
            said.clear();
        }
    std::cout << "rounds: " << sum << '\n';
}

int main() {
    for (int to = 0; to < ISAS; to++)
        for (int from = 0; from < ISAS; from++) {
            Pair pair{from, to};
            double result = step(to, catches, &pair, 30);
            std::cout << "from " << names[from] << " to " << names[to] << ':' << said << " = " << result << '\n';
            said.clear();
        }
    for (int target = 0; target < DEPTH; target++) {
        Chain chain{0, target};
        double result = step(isa_at(0), links, &chain, 50);
        std::cout << "to place " << target << ':' << said << " = " << result << '\n';
        said.clear();
    }
    try {
        step(2, busy, nullptr, 5);
    } catch (const Custom &) {
        std::cout << "busy:" << said << ' ' << std::uncaught_exceptions() << '\n';
        said.clear();
    }
    std::unique_ptr<Base> base = std::make_unique<Derived>();
    try {
        std::cout << base->value(2) << '\n';
        std::cout << base->value(3) << '\n';
    } catch (const std::out_of_range &) {
        std::cout << "out of range\n";
    }
    std::exception_ptr kept;
    try {
        Pair pair{1, 0};
        step(1, throws, &pair, 1);
    } catch (...) {
        kept = std::current_exception();
    }
    try {
        std::rethrow_exception(kept);
    } catch (const Custom &custom) {
        std::cout << "again " << custom.what() << '\n';
    }
    said.clear();
    auto result = std::async(std::launch::async, [] {
        Pair pair{1, 2};
        return step(2, throws, &pair, 1);
    });
    try {
        result.get();
    } catch (const Custom &custom) {
        std::cout << "of a thread: " << custom.what() << '\n';
    }
    ends("noexcept", leaves_noexcept);
    ends("uncaught", leaves_all);
    rounds(100);
}
