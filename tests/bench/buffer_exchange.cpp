// ConTest-like: producers and consumers exchange messages through a small monitor that everybody is notified of, and
// keep statistics under a read-write lock; nearly all the time goes into synchronisation.
//# kind: locks
//# flags: -O2
//# threads: even
#include "bench.h"
#include <condition_variable>
#include <deque>
#include <mutex>
#include <shared_mutex>

namespace {

constexpr int MESSAGES = 700000 * SCALE;

class Monitor {
public:
    void put(std::uint64_t value) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return messages_.size() < 64; });
        messages_.push_back(value);
        changed_.notify_all();
    }
    std::uint64_t get() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !messages_.empty(); });
        std::uint64_t value = messages_.front();
        messages_.pop_front();
        changed_.notify_all();
        return value;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::uint64_t> messages_;
};

Monitor monitor;
std::shared_mutex statistics_mutex;
std::uint64_t received, sum;

void produce() {
    for (std::uint64_t i = 0; i < MESSAGES; i++) {
        monitor.put(i);
        if (i % 16 == 0) {
            std::shared_lock lock(statistics_mutex);
            if (received > static_cast<std::uint64_t>(MESSAGES) * THREADS)
                abort();
        }
    }
}

void consume() {
    for (int i = 0; i < MESSAGES; i++) {
        std::uint64_t value = monitor.get();
        std::unique_lock lock(statistics_mutex);
        received++;
        sum += value * value;
    }
}

void *body(void *argument) {
    reinterpret_cast<std::uintptr_t>(argument) % 2 ? consume() : produce();
    return nullptr;
}

} // namespace

int main() {
    static_assert(THREADS % 2 == 0, "half of the threads produce, half consume");
    run_team(body);
    finish(sum);
}
