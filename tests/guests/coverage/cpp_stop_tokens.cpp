// std::jthread with stop tokens: how far a worker comes before it is asked to stop differs from run to run; a stop
// callback and a stoppable wait.
//# threads: 5
//# expect: pass
#include "../guest.h"
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

int main() {
    std::uint64_t progress[4] = {}, callbacks = 0;
    std::atomic<int> started = 0;
    std::mutex mutex;
    std::condition_variable_any never;
    bool interrupted = false;
    {
        std::vector<std::jthread> workers;
        for (int i = 0; i < 4; i++)
            workers.emplace_back([&, i](std::stop_token stop) {
                std::stop_callback note(stop, [&, i] {
                    std::lock_guard guard(mutex);
                    callbacks = mix(callbacks, static_cast<std::uint64_t>(i));
                });
                started++;
                while (!stop.stop_requested())
                    progress[i]++;
            });
        std::jthread sleeper([&](std::stop_token stop) {
            std::unique_lock lock(mutex);
            interrupted = !never.wait(lock, stop, [] { return false; });
        });
        while (started < 4)
            std::this_thread::yield();
        for (int i = 3; i >= 0; i--)
            workers[static_cast<std::size_t>(i)].request_stop();
    }
    REQUIRE(interrupted);
    print_result(mix_bytes(callbacks, progress, sizeof progress));
}
