// Reference counts: shared_ptr and weak_ptr copied and dropped by several threads, std::atomic<shared_ptr>; who
// destroys an object, and when, differs from run to run.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

thread_local std::uint64_t self;
std::atomic<std::uint64_t> destroyed;

struct Object {
    std::uint64_t number;
    explicit Object(std::uint64_t n) : number(n) {}
    ~Object() {
        std::uint64_t old = destroyed.load();
        while (!destroyed.compare_exchange_weak(old, mix(old, number * 8 + self))) {
        }
    }
};

std::mutex mutex;
std::shared_ptr<Object> current;        /* Under `mutex`. */
std::atomic<std::shared_ptr<Object>> published;

std::uint64_t body(std::uint64_t me) {
    self = me;
    start_together(4);
    std::uint64_t hash = me;
    std::weak_ptr<Object> weak;
    for (std::uint64_t i = 0; i < 150; i++) {
        std::shared_ptr<Object> copy;
        {
            std::lock_guard guard(mutex);
            copy = current;
            if (i % 4 == me)
                current = std::make_shared<Object>(me << 16 | i);
        }
        if (copy)
            hash = mix(hash, copy->number);
        if (std::shared_ptr<Object> still = weak.lock())
            hash = mix(hash, still->number + static_cast<std::uint64_t>(still.use_count() > 1));
        weak = copy;
        std::shared_ptr<Object> seen = published.load();
        if (seen)
            hash = mix(hash, seen->number);
        published.store(std::move(copy));
    }
    return hash;
}

} // namespace

int main() {
    std::uint64_t results[4] = {}, hash = 0;
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t i = 0; i < 4; i++)
            threads.emplace_back([i, &results] { results[i] = body(i); });
    }
    published.store(nullptr);
    current.reset();
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(mix(hash, destroyed));
}
