// C++ with threads: mutex, condition variable, shared mutex, future, once, atomics.
//# counts: vary
#include <atomic>
#include <condition_variable>
#include <future>
#include <iostream>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

thread_local int per_thread; static thread_local std::string own = "own";
[[gnu::noinline]] int dangerous(int k) { if (k % 3 == 0) throw std::runtime_error("three " + std::to_string(k)); return k; }
struct Queue {
    std::mutex m; std::condition_variable cv; std::vector<int> items; bool closed = false;
    void push(int x) { { std::lock_guard l(m); items.push_back(x); } cv.notify_one(); }
    void close() { std::scoped_lock l(m); closed = true; cv.notify_all(); }
    std::optional<int> pop() { std::unique_lock l(m); cv.wait(l, [&] { return !items.empty() || closed; }); if (items.empty()) return {}; int x = items.back(); items.pop_back(); return x; }
};
int main() {
    Queue queue; std::atomic<long> got{0}; std::shared_mutex rw; long shared_sum = 0;
    std::vector<std::thread> workers;
    for (int t = 0; t < 3; t++) workers.emplace_back([&, t] { per_thread = t; own += "x"; while (auto x = queue.pop()) { got += *x; std::unique_lock l(rw); shared_sum += *x; per_thread++; } });
    for (int k = 1; k <= 100; k++) queue.push(k);
    queue.close();
    for (auto &w : workers) w.join();
    { std::shared_lock l(rw); std::cout << got << ' ' << shared_sum << ' ' << per_thread << own << '\n'; }
    auto later = std::async(std::launch::async, [] { return dangerous(7) + 1; });
    std::cout << later.get() << ' ';
    try { std::async(std::launch::async, [] { return dangerous(9); }).get(); } catch (std::exception &e) { std::cout << e.what() << '\n'; }
    std::once_flag once; int calls = 0; for (int k = 0; k < 3; k++) std::call_once(once, [&] { calls++; });
    return calls - 1;
}
