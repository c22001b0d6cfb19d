// Exceptions thrown while locks are held and other threads interfere, through several frames, and out of a thread by
// exception_ptr; how often and where each thread throws differs from run to run.
//# threads: 4
//# expect: pass
#include "../guest.h"
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

std::mutex mutex;
std::uint64_t chain;
volatile std::uint64_t racy;

struct Tracker {
    std::uint64_t &hash;
    ~Tracker() { hash = mix(hash, racy); }
};

NOINLINE void descend(std::uint64_t me, int depth, std::uint64_t &hash) {
    Tracker tracker{hash};
    std::lock_guard guard(mutex);
    chain = mix(chain, me);
    if (chain % 5 == 0)
        throw std::runtime_error("depth " + std::to_string(depth));
    if (chain % 7 == 0)
        throw depth;
    racy = racy + me + 1;
}

std::uint64_t body(std::uint64_t me) {
    std::uint64_t hash = me;
    start_together(4);
    for (int i = 0; i < 200; i++) {
        try {
            for (int depth = 0; depth < 4; depth++)
                descend(me, depth, hash);
        } catch (const std::exception &error) {
            hash = mix_bytes(hash, error.what(), strlen(error.what()));
        } catch (int depth) {
            hash = mix(hash, static_cast<std::uint64_t>(depth));
        }
    }
    if (racy % 2)
        throw std::logic_error("odd");
    return hash;
}

} // namespace

int main() {
    std::uint64_t results[4] = {}, hash = 0;
    std::exception_ptr escaped[4];
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t i = 0; i < 4; i++)
            threads.emplace_back([i, &results, &escaped] {
                try {
                    results[i] = body(i);
                } catch (...) {
                    escaped[i] = std::current_exception();
                }
            });
    }
    for (std::size_t i = 0; i < 4; i++)
        hash = mix(mix(hash, results[i]), escaped[i] != nullptr);
    print_result(hash);
}
