/* The C++ library over several instruction sets: streams, files, threads, regular expressions and containers that are made
 * on one and used on another. */
#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <limits>
#include <locale>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "crossing.h"

/* Static objects: in the order of their definitions, but for priorities; ended in the reverse order. */
struct Noted {
    const char *name;
    explicit Noted(const char *name) : name(name) { printf("%s begins\n", name); }
    ~Noted() { printf("%s ends\n", name); }
};
static Noted second("second"), third("third");
static Noted first __attribute__((init_priority(300)))("first");

/* Each thread has its own, and ends it. */
struct Tally {
    int count = 0;
    ~Tally() { std::cout << "a thread has counted " << count << '\n'; }
};
static thread_local Tally tally;
MOTET_ON(ARM) void tally_arm() { expect_on(ARM); tally.count += 1; }
MOTET_ON(RISCV) void tally_riscv() { expect_on(RISCV); tally.count += 10; }

/* Virtual functions whose implementations run in different places. */
struct Writer {
    virtual ~Writer() = default;
    virtual void write(std::ostream &out, double value) const = 0;
};
struct Fixed : Writer { void write(std::ostream &, double) const override; };
struct Hexadecimal : Writer { void write(std::ostream &, double) const override; };
struct Shortest : Writer { void write(std::ostream &, double) const override; };
MOTET_ON(ARM) void Fixed::write(std::ostream &out, double value) const {
    expect_on(ARM);
    out << std::fixed << std::setprecision(3) << std::setw(14) << std::setfill('.') << value << std::defaultfloat;
}
MOTET_ON(RISCV) void Hexadecimal::write(std::ostream &out, double value) const {
    expect_on(RISCV);
    out << std::hexfloat << value << std::defaultfloat;
}
MOTET_ON(X86) void Shortest::write(std::ostream &out, double value) const {
    expect_on(X86);
    char text[64];
    out << std::string_view(text, std::to_chars(text, text + sizeof text, value).ptr - text);
}

static void numbers() {
    std::vector<std::unique_ptr<Writer>> writers;
    writers.push_back(std::make_unique<Fixed>());
    writers.push_back(std::make_unique<Hexadecimal>());
    writers.push_back(std::make_unique<Shortest>());
    for (double value : {0.1, -1.0 / 3, 1e300, 6.02214076e23, std::numeric_limits<double>::min()}) {
        for (auto &writer : writers) {
            std::ostringstream line;
            writer->write(line, value);
            std::cout << line.str().substr(0, 40) << ' ';
        }
        std::cout << value << '\n';
    }
    std::cout << std::showbase << std::hex << 255 << ' ' << std::oct << 255 << std::dec << std::noshowbase << ' '
              << std::boolalpha << true << ' ' << std::showpos << 7 << std::noshowpos << '\n';
}

/* A stream that is read on one and written on another. */
MOTET_ON(RISCV) void sum_words(std::istream &in, std::ostream &out) {
    expect_on(RISCV);
    std::string word;
    int number, sum = 0;
    while (in >> word >> number) {
        sum += number;
        out << std::left << std::setw(8) << word << '|' << std::right << std::setw(5) << number << '\n';
    }
    out << sum << ' ' << in.eof() << '\n';
}

MOTET_ON(ARM) void write_file(const std::string &path) {
    expect_on(ARM);
    std::ofstream file(path);
    for (int i = 0; i < 500; i++)
        file << "line " << i << '\n';
}
MOTET_ON(RISCV) std::size_t count_lines(const std::string &path) {
    expect_on(RISCV);
    std::ifstream file(path);
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);)
        lines += line == "line " + std::to_string(lines);
    return lines;
}

static void files() {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / "motet streams";
    std::filesystem::create_directories(folder / "inner");
    const std::string path = (folder / "lines.txt").string();
    write_file(path);
    std::cout << count_lines(path) << ' ' << std::filesystem::file_size(path) << '\n';
    std::fstream both(path, std::ios::in | std::ios::out);
    both.seekp(5);
    both << 'X';
    both.seekg(0);
    std::string line;
    std::getline(both, line);
    std::set<std::string> names;
    for (auto &entry : std::filesystem::recursive_directory_iterator(folder))
        names.insert(entry.path().filename().string() + (entry.is_directory() ? "/" : ""));
    for (auto &name : names)
        std::cout << name << ' ';
    std::cout << line << ' ' << std::filesystem::remove_all(folder) << ' ' << std::filesystem::exists(folder) << '\n';
    std::ifstream missing(path);
    std::cout << missing.is_open() << missing.good() << '\n';
}

/* A queue between threads whose ends are on different islands. */
static std::mutex mutex;
static std::condition_variable changed;
static std::deque<int> queue;
MOTET_ON(ARM) void produce(int count) {
    expect_on(ARM);
    for (int i = 1; i <= count; i++) {
        std::lock_guard lock(mutex);
        queue.push_back(i);
        changed.notify_one();
    }
}
MOTET_ON(RISCV) int take() {
    expect_on(RISCV);
    std::unique_lock lock(mutex);
    changed.wait(lock, [] { return !queue.empty(); });
    int front = queue.front();
    queue.pop_front();
    return front;
}

static void threads() {
    std::thread producer([] {
        tally_arm();
        produce(20);
    });
    int sum = 0;
    for (int i = 0; i < 20; i++)
        sum += take();
    producer.join();
    tally_riscv();
    tally_arm();
    std::once_flag once;
    std::call_once(once, [] { std::cout << "once\n"; });
    std::call_once(once, [] { std::cout << "never\n"; });
    auto later = std::async(std::launch::async, [] { return std::string("from another thread"); });
    std::cout << sum << ' ' << later.get() << '\n';
    using namespace std::chrono_literals;
    auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(2ms);
    std::cout << (std::chrono::steady_clock::now() - start >= 2ms) << ' '
              << std::chrono::duration_cast<std::chrono::seconds>(90min).count() << '\n';
}

MOTET_ON(ARM) bool longer(const std::string &a, const std::string &b) {
    expect_on(ARM);
    return a.size() != b.size() ? a.size() > b.size() : a < b;
}
MOTET_ON(RISCV) void count(std::unordered_map<std::string, int> &words, const std::string &text) {
    expect_on(RISCV);
    static const std::regex word("[[:alpha:]]+(-[a-z]+)*");
    for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at)
        words[at->str()]++;
}

static void words() {
    std::unordered_map<std::string, int> counted;
    count(counted, "a well-known fact, a rather-well-known one: the fact is 42");
    std::vector<std::string> names;
    for (auto &[word, number] : counted)
        names.push_back(word + '=' + std::to_string(number));
    std::sort(names.begin(), names.end(), longer);
    for (auto &name : names)
        std::cout << name << ' ';
    std::cout << '\n' << std::regex_replace("2024-01-31", std::regex("(\\d+)-(\\d+)-(\\d+)"), "$3.$2.$1") << '\n';
}

MOTET_ON(RISCV) int call(const std::function<int(int)> &function, int value) { expect_on(RISCV); return function(value); }
MOTET_ON(ARM) int twice(int value) { expect_on(ARM); return 2 * value; }

static void functions() {
    int base = 100;
    std::function<int(int)> add = [&base](int value) { return base += value; };
    std::cout << call(add, 5) << ' ' << call(twice, 21) << ' ' << call(std::bind(std::plus<>(), 40, std::placeholders::_1), 2)
              << ' ' << base << '\n';
    std::variant<int, std::string> either = "text";
    std::optional<int> none;
    std::mt19937 random(42);
    std::cout << std::get<std::string>(either) << ' ' << none.value_or(-1) << ' ' << random() << '\n';
    std::cout << std::use_facet<std::ctype<char>>(std::locale::classic()).toupper('q') << ' '
              << std::locale::classic().name() << '\n';
}

int main() {
    numbers();
    std::istringstream in("apples 12 pears 7 plums 23");
    sum_words(in, std::cout);
    files();
    threads();
    words();
    functions();
}
