// std::condition_variable and condition_variable_any: waits with a predicate, with a far deadline, with a shared lock.
//# threads: 6
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace {

constexpr int ITEMS = 100;

class Channel {
public:
    void send(std::uint64_t item) {
        std::unique_lock lock(mutex_);
        space_.wait(lock, [&] { return items_.size() < 3; });
        items_.push_back(item);
        lock.unlock();
        filled_.notify_one();
    }
    std::uint64_t receive() {
        std::unique_lock lock(mutex_);
        if (!filled_.wait_for(lock, std::chrono::hours(5), [&] { return !items_.empty(); }))
            abort();
        std::uint64_t item = items_.front();
        items_.pop_front();
        space_.notify_all();
        return item;
    }

private:
    std::mutex mutex_;
    std::condition_variable filled_, space_;
    std::deque<std::uint64_t> items_;
};

Channel channel;
std::shared_mutex door;
std::condition_variable_any opened;
bool is_open = false;

} // namespace

int main() {
    std::uint64_t results[6] = {}, hash = 0;
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 6; i++)
        threads.emplace_back([i, &results] {
            {
                std::shared_lock lock(door);
                opened.wait(lock, [] { return is_open; });
            }
            for (std::uint64_t k = 0; k < ITEMS; k++) {
                if (i % 2)
                    channel.send(i << 32 | k);
                else
                    results[i] = mix(results[i], channel.receive());
            }
        });
    {
        std::unique_lock lock(door);
        is_open = true;
    }
    opened.notify_all();
    for (std::thread &thread : threads)
        thread.join();
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(hash);
}
