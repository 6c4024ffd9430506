/* The C++ library's mutexes, locks and condition variables over the adaptor:
 *
 *     classes musl|library
 *
 * says whose mutexes are expected. A queue between makers and takers, a recursive mutex, a time limit, and call_once. */
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

static constexpr int MAKERS = 3, TAKERS = 3, EACH = 400, ROOM = 8;

struct Queue {
    std::mutex mutex;
    std::condition_variable has_item, has_room;
    std::deque<int> items;

    void put(int item) {
        std::unique_lock lock(mutex);
        has_room.wait(lock, [&] { return items.size() < ROOM; });
        items.push_back(item);
        has_item.notify_one();
    }

    int take() {
        std::unique_lock lock(mutex);
        has_item.wait(lock, [&] { return !items.empty(); });
        int item = items.front();
        items.pop_front();
        has_room.notify_one();
        return item;
    }
};

static bool queue() {
    Queue between;
    std::mutex sums;
    long sum = 0;
    std::vector<std::thread> threads;
    for (int maker = 0; maker < MAKERS; maker++)
        threads.emplace_back([&, maker] {
            for (int i = 0; i < EACH; i++)
                between.put(maker * EACH + i);
        });
    for (int taker = 0; taker < TAKERS; taker++)
        threads.emplace_back([&] {
            for (int i = 0; i < EACH; i++) {
                int item = between.take();
                std::lock_guard guard(sums);
                sum += item;
            }
        });
    for (auto &thread : threads)
        thread.join();
    return sum == long{MAKERS * EACH} * (MAKERS * EACH - 1) / 2 && between.items.empty();
}

static int down(std::recursive_mutex &mutex, int depth) {
    std::lock_guard guard(mutex);
    return depth == 0 ? 0 : 1 + down(mutex, depth - 1);
}

static bool recursive() {
    std::recursive_mutex mutex;
    bool is_others = false;
    std::unique_lock lock(mutex);
    std::thread([&] { is_others = !mutex.try_lock(); }).join();
    return down(mutex, 20) == 20 && is_others;
}

static bool limited() {
    using namespace std::chrono_literals;
    std::timed_mutex mutex;
    std::condition_variable never;
    std::mutex with;
    std::unique_lock lock(mutex);
    bool has_waited = false;
    std::thread([&] { has_waited = !mutex.try_lock_for(5ms); }).join();
    std::unique_lock other(with);
    return has_waited && never.wait_for(other, 5ms) == std::cv_status::timeout && other.owns_lock();
}

static bool once() {
    std::once_flag flag;
    int calls = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] { std::call_once(flag, [&] { calls++; }); });
    for (auto &thread : threads)
        thread.join();
    return calls == 1;
}

/* musl does not use this word of a mutex; the adaptor has the number there by which its back end knows it. */
static bool is_of_library() {
    std::mutex mutex;
    std::lock_guard guard(mutex);
    int word;
    memcpy(&word, reinterpret_cast<char *>(mutex.native_handle()) + 3 * sizeof word, sizeof word);
    return word != 0;
}

int main(int count, char **arguments) {
    bool of_library = count > 1 && strcmp(arguments[1], "library") == 0;
    if (is_of_library() != of_library)
        return puts("mutexes are not whose they should be"), 1;
    puts(queue() && recursive() && limited() && once() ? "as they should be" : "wrong");
    return 0;
}
