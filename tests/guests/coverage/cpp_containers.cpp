// Standard containers and strings under locks, new and delete across threads, and a racy look at a size.
//# threads: 4
//# expect: pass
#include "../guest.h"
#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

std::mutex mutex;
std::map<std::uint64_t, std::string> ordered;
std::unordered_map<std::string, std::unique_ptr<std::uint64_t>> hashed;
std::list<std::uint64_t> queue;
std::vector<std::uint64_t> log_;
volatile std::uint64_t size_hint; /* Written under the lock, read without. */

std::uint64_t body(std::uint64_t me) {
    std::uint64_t hash = me, random = me + 1;
    start_together(4);
    for (int i = 0; i < 120; i++) {
        std::uint64_t key = next_random(&random) % 40;
        hash = mix(hash, size_hint);
        std::lock_guard guard(mutex);
        ordered[key] += static_cast<char>('a' + me);
        auto &slot = hashed["key " + std::to_string(key)];
        if (slot && *slot % 3 == 0)
            slot.reset();
        else
            slot = std::make_unique<std::uint64_t>(hash);
        queue.push_back(hash);
        if (queue.size() > 20)
            queue.pop_front();
        log_.push_back(queue.front());
        if (i % 30 == 0)
            std::sort(log_.begin(), log_.end());
        hash = mix_bytes(hash, ordered[key].data(), ordered[key].size());
        size_hint = ordered.size() + hashed.size() + log_.size();
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
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    for (const auto &[key, text] : ordered)
        hash = mix_bytes(mix(hash, key), text.data(), text.size());
    for (std::uint64_t value : log_)
        hash = mix(hash, value);
    print_result(hash);
}
