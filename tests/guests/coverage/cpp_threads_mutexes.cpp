// std::thread, mutex, recursive_mutex, timed_mutex, lock_guard, unique_lock, scoped_lock, shared_mutex, shared_lock.
//# threads: 4
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <chrono>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace {

constexpr unsigned THREADS = 4, STEPS = 150;

std::mutex first, second;
std::recursive_mutex nested;
std::timed_mutex timed;
std::shared_mutex shared;
std::uint64_t pair_chain, nested_chain, timed_chain, shared_chain;

std::uint64_t descend(int depth, std::uint64_t value) {
    std::lock_guard guard(nested);
    nested_chain = mix(nested_chain, value);
    return depth ? descend(depth - 1, value) : nested_chain;
}

void body(std::uint64_t me, std::uint64_t &result) {
    std::uint64_t hash = me;
    start_together(THREADS);
    for (unsigned i = 0; i < STEPS; i++) {
        {
            std::scoped_lock both(me % 2 ? first : second, me % 2 ? second : first);
            pair_chain = mix(pair_chain, me);
            hash = mix(hash, pair_chain);
        }
        hash = mix(hash, descend(i % 3, me));
        if (std::unique_lock lock(timed, std::try_to_lock); lock) {
            timed_chain = mix(timed_chain, me);
            hash = mix(hash, timed_chain);
        } else if (timed.try_lock_for(std::chrono::hours(10))) {
            timed_chain = mix(timed_chain, me + 100);
            timed.unlock();
        }
        if (i % 5 == me) {
            std::unique_lock lock(shared);
            shared_chain = mix(shared_chain, me);
        } else if (std::shared_lock lock(shared, std::try_to_lock); lock) {
            hash = mix(hash, shared_chain);
        }
    }
    result = hash;
}

} // namespace

int main() {
    std::vector<std::thread> threads;
    std::uint64_t results[THREADS] = {}, hash = 0;
    for (unsigned i = 0; i < THREADS; i++)
        threads.emplace_back(body, i, std::ref(results[i]));
    for (std::thread &thread : threads)
        thread.join();
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(hash);
}
