/* Exceptions on each instruction set, while calls are under way on others: thrown and caught between two crossings.
 * Given an argument, the last one would have to leave a function that motet_call_on() calls. */
#include <exception>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "crossing.h"

struct Guard {
    std::string name;
    ~Guard() { std::cout << name << " is left\n"; }
};

struct Custom : std::runtime_error {
    int code;
    explicit Custom(int code) : std::runtime_error("custom " + std::to_string(code)), code(code) {}
};

__attribute__((noinline)) static double checked(int depth, double value, bool custom) {
    Guard guard{"depth " + std::to_string(depth)};
    if (depth == 0) {
        if (custom)
            throw Custom(int(value));
        throw std::out_of_range("value " + std::to_string(value));
    }
    return checked(depth - 1, value * 2, custom) + 1;
}

/* What the frames in between preserve is there when it is caught. */
__attribute__((noinline)) static std::string caught(const char *where, bool custom) {
    double kept = strlen(where) * 0.5;
    try {
        kept += checked(2, kept, custom);
    } catch (const Custom &error) {
        return std::string(where) + " caught " + error.what() + ", kept " + std::to_string(kept);
    } catch (const std::exception &error) {
        return std::string(where) + " caught " + error.what() + ", kept " + std::to_string(kept);
    }
    return "nothing";
}

MOTET_ON(RISCV) void on_riscv(std::vector<std::string> &said, int depth);
MOTET_ON(ARM) void on_arm(std::vector<std::string> &said, int depth) {
    expect_on(ARM);
    said.push_back(caught("arm", depth & 1));
    if (depth > 0)
        on_riscv(said, depth - 1);
    said.push_back(caught("arm again", !(depth & 1)));
}
void on_riscv(std::vector<std::string> &said, int depth) {
    expect_on(RISCV);
    said.push_back(caught("riscv", depth & 1));
    if (depth > 0)
        on_arm(said, depth - 1);
    said.push_back(caught("riscv again", !(depth & 1)));
}

/* Caught with a call under way on another instruction set, and thrown again here. */
MOTET_ON(RISCV) void keep(std::exception_ptr &kept) {
    expect_on(RISCV);
    try {
        std::vector<int>(3).at(5);
    } catch (...) {
        kept = std::current_exception();
    }
}
MOTET_ON(ARM) int rethrown(std::exception_ptr &kept) {
    expect_on(ARM);
    try {
        std::rethrow_exception(kept);
    } catch (const std::logic_error &error) {
        return 1;
    } catch (...) {
        return 2;
    }
}

MOTET_ON(ARM) bool no_memory() {
    expect_on(ARM);
    try {
        void *volatile block = ::operator new(std::size_t(1) << 60);
        ::operator delete(block);
        return false;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

MOTET_ON(RISCV) std::size_t nested() {
    expect_on(RISCV);
    std::size_t depth = 0;
    try {
        try {
            throw 1;
        } catch (int) {
            std::throw_with_nested(std::runtime_error("outer"));
        }
    } catch (const std::exception &error) {
        depth = 1;
        try {
            std::rethrow_if_nested(error);
        } catch (int number) {
            depth += number;
        }
    }
    return depth + std::uncaught_exceptions();
}

static int compare(const void *, const void *) { throw Custom(7); }

static void nobody_expects() noexcept(false) { throw std::logic_error("of a thread"); }

static void *leaves(void *) {
    Guard guard{"leaves"};
    throw Custom(2);
}

int main(int argc, char **) {
    std::vector<std::string> said;
    on_arm(said, 3);
    said.push_back(caught("main", true));
    for (auto &line : said)
        std::cout << line << '\n';

    std::exception_ptr kept;
    keep(kept);
    std::cout << rethrown(kept) << ' ' << no_memory() << ' ' << nested() << '\n';

    int pair[2] = {2, 1};
    try {
        qsort(pair, 2, sizeof *pair, compare);
    } catch (const Custom &error) {
        std::cout << "through qsort: " << error.code << '\n';
    }
    auto result = std::async(std::launch::async, nobody_expects);
    try {
        result.get();
    } catch (const std::logic_error &error) {
        std::cout << error.what() << '\n';
    }
    struct Base { virtual ~Base() = default; } base;
    struct Derived : Base {};
    try {
        (void)dynamic_cast<Derived &>(base);
    } catch (const std::bad_cast &) {
        std::cout << "bad cast" << std::endl;
    }
    if (argc > 1)
        try {
            motet_call_on(2, leaves, nullptr);
        } catch (const Custom &) {
            std::cout << "on plain Linux it is caught\n";
        }
}
