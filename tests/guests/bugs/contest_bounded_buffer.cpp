// ConTest BoundedBuffer: producers and consumers wait on one condition, and notify() wakes only one of them. When it
// wakes one of its own kind, nobody goes on: all threads wait for ever.
//# threads: 5
//# fails: hang
//# timeout: 2
//# chaos: 400
#include "../guest.h"
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace {

class Buffer {
public:
    void put(int value) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !full_; });
        value_ = value;
        full_ = true;
        changed_.notify_one(); /* The bug: notify_all is needed. */
    }
    int get() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return full_; });
        full_ = false;
        changed_.notify_one();
        return value_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int value_ = 0;
    bool full_ = false;
};

Buffer buffer;

} // namespace

int main() {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; t++)
        threads.emplace_back([] {
            start_together(5);
            for (int i = 0; i < 3; i++)
                buffer.put(i);
        });
    for (int t = 0; t < 3; t++)
        threads.emplace_back([] {
            start_together(5);
            for (int i = 0; i < 2; i++)
                buffer.get();
        });
}
