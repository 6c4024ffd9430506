/* C++ over several instruction sets: tables of virtual functions, templates, static objects, pointers to members, and the
 * library, whose containers and strings are made on one and used on another. */
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "crossing.h"

struct Shape {
    virtual ~Shape() { puts("a shape ends"); }
    virtual double area() const = 0;
    virtual std::string name() const { return "shape"; }
};

template <typename T> struct Box : Shape {
    T width, height;
    Box(T width, T height) : width(width), height(height) {}
    double area() const override { return double(width * height); }
    std::string name() const override { return "box of " + std::to_string(width); }
};

struct Circle : Shape {
    double radius;
    explicit Circle(double radius) : radius(radius) {}
    ~Circle() override { puts("a circle ends"); }
    double area() const override;
};

/* Called through the table, from wherever. */
MOTET_ON(RISCV) double Circle::area() const { expect_on(RISCV); return 3 * radius * radius; }

static int made;
struct Counted {
    int number;
    explicit Counted(int number) : number(number) { made += number; }
    ~Counted() { printf("static object %d ends\n", number); }
};
static Counted first(1), second(20);

static Counted &local() {
    static Counted object(300);
    return object;
}

using Shapes = std::vector<std::unique_ptr<Shape>>;

MOTET_ON(ARM) void add(Shapes &shapes) {
    expect_on(ARM);
    shapes.push_back(std::make_unique<Box<int>>(2, 3));
    shapes.push_back(std::make_unique<Box<long>>(4, 5));
    shapes.push_back(std::make_unique<Circle>(2));
}

MOTET_ON(ARM) double total(const Shapes &shapes) {
    expect_on(ARM);
    double sum = 0;
    for (auto &shape : shapes) {
        sum += shape->area();
        printf("%s, a circle: %d\n", shape->name().c_str(), dynamic_cast<Circle *>(shape.get()) != nullptr);
    }
    return sum;
}

MOTET_ON(RISCV) int guarded() { expect_on(RISCV); return local().number; }

struct Counter {
    int value = 0;
    virtual int up(int by) { return value += by; }
    int down(int by) { return value -= by; }
};
struct Double : Counter {
    int up(int by) override { return value += 2 * by; }
};
using Method = int (Counter::*)(int);
static const Method methods[] = {&Counter::up, &Counter::down};

MOTET_ON(ARM) int call_arm(Counter &counter, const Method &method, int by) { expect_on(ARM); return (counter.*method)(by); }
MOTET_ON(RISCV) int call_riscv(Counter &counter, const Method &method, int by) {
    expect_on(RISCV);
    return (counter.*method)(by);
}

MOTET_ON(RISCV) void count(std::map<std::string, int> &words, const std::string &text) {
    expect_on(RISCV);
    for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
        end = std::min(text.find(' ', at), text.size());
        words[text.substr(at, end - at)]++;
    }
}

MOTET_ON(ARM) bool descends(const std::string &a, const std::string &b) { expect_on(ARM); return b < a; }
MOTET_ON(X86) int apply(const std::function<int(int)> &function, int value) { expect_on(X86); return function(value); }
MOTET_ON(ARM) int from_arm(int value) {
    expect_on(ARM);
    return apply([value](int more) { return value * 100 + more; }, 7);
}

int main() {
    printf("%d of static objects\n", made);
    {
        Shapes shapes;
        add(shapes);
        printf("%.2f\n", total(shapes));
    }
    printf("%d %d %d\n", guarded(), local().number, made);

    Double counter;
    for (const Method &method : methods) {
        printf("%d ", call_arm(counter, method, 5));
        printf("%d ", call_riscv(counter, method, 3));
        printf("%d\n", (counter.*method)(1));
    }

    std::map<std::string, int> words;
    count(words, "one two three two three three, which is rather longer than a short string");
    std::vector<std::string> names;
    for (auto &[name, number] : words)
        names.push_back(name + "=" + std::to_string(number));
    std::sort(names.begin(), names.end(), descends);
    for (auto &name : names)
        printf("%s ", name.c_str());
    printf("\n%d\n", from_arm(3));

    std::mutex mutex;
    std::thread thread([&] {
        std::lock_guard lock(mutex);
        puts(std::make_shared<Circle>(1)->name().c_str());
    });
    thread.join();
    return 0;
}
