// Light, figure 6 (6), Tomcat-50885: a reference is tested for null and used afterwards, while another thread recycles
// the object that holds it; the two hand requests over by wait and notify. The null is found by the program, which
// throws, catches, and ends with an error.
//# threads: 3
//# fails: exit 3
//# chaos: 400
#include "../guest.h"
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace {

struct Buffer { std::uint64_t bytes = 0; };

class Processor {
public:
    void assign(Buffer *buffer) {
        std::unique_lock lock(mutex_);
        idle_.wait(lock, [&] { return buffer_ == nullptr; });
        buffer_ = buffer;
        busy_.notify_all();
    }
    void serve() {
        std::unique_lock lock(mutex_);
        busy_.wait(lock, [&] { return buffer_ != nullptr; });
        lock.unlock();
        dereference()->bytes++;
        recycle();
    }
    /* Called by the thread that watches for timeouts: without the lock. */
    void poll() {
        if (buffer_ != nullptr)
            dereference()->bytes++;
    }

private:
    Buffer *dereference() {
        Buffer *buffer = buffer_;
        if (buffer == nullptr)
            throw std::runtime_error("null buffer");
        return buffer;
    }
    void recycle() {
        std::lock_guard guard(mutex_);
        buffer_ = nullptr;
        idle_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable idle_, busy_;
    Buffer *volatile buffer_ = nullptr;
};

Processor processor;
constexpr int REQUESTS = 40;

} // namespace

int main() {
    Buffer buffer;
    volatile bool failed = false;
    std::jthread acceptor([&] {
        for (int i = 0; i < REQUESTS; i++)
            processor.assign(&buffer);
    });
    std::jthread watcher([&] {
        try {
            for (int i = 0; i < 200; i++)
                processor.poll();
        } catch (const std::exception &error) {
            fprintf(stderr, "watcher: %s\n", error.what());
            failed = true;
        }
    });
    for (int i = 0; i < REQUESTS; i++)
        processor.serve();
    acceptor.join();
    watcher.join();
    return failed ? 3 : 0;
}
