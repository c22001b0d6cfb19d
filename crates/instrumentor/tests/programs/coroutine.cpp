// C++20: coroutines, concepts, ranges, jthread, atomic wait, semaphore, latch, barrier.
//# counts: vary
#include <atomic>
#include <barrier>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <latch>
#include <ranges>
#include <semaphore>
#include <thread>
#include <vector>
struct Generator {
    struct promise_type {
        int value = 0;
        Generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int v) { value = v; return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> h;
    ~Generator() { h.destroy(); }
    bool next() { h.resume(); return !h.done(); }
};
int seed = 3;
Generator squares(int n) { for (int i = 0; i < n; i++) { seed += i; co_yield i * i + seed; } }
template <std::integral T> T twice(T x) { return x + x; }
int main() {
    auto g = squares(6);
    while (g.next()) std::printf("%d ", twice(g.h.promise().value));
    std::vector<int> v{1, 2, 3, 4, 5, 6};
    for (int x : v | std::views::filter([](int x) { return x % 2 == 0; }) | std::views::transform([](int x) { return x * seed; })) std::printf("%d ", x);
    std::atomic<int> ready{0}; int payload = 0; std::counting_semaphore<4> slots{2}; std::latch done{2}; std::barrier together{2};
    {
        std::jthread a([&] { payload = 42; ready = 1; ready.notify_one(); slots.acquire(); slots.release(); together.arrive_and_wait(); done.count_down(); });
        std::jthread b([&] { ready.wait(0); payload++; together.arrive_and_wait(); done.count_down(); });
        done.wait();
    }
    std::printf("%d\n", payload);
}
