// std::call_once whose function throws at the first attempts: the exception passes through pthread_once, and the next
// caller tries again. Who sees the exceptions differs from run to run.
//# threads: 5
//# expect: pass
#include "../guest.h"
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

std::once_flag once;
int attempts;
std::uint64_t chosen;

std::uint64_t body(std::uint64_t me) {
    start_together(5);
    for (std::uint64_t seen = 0;; seen++) {
        try {
            std::call_once(once, [me] {
                if (++attempts < 8)
                    throw std::runtime_error("not yet");
                chosen = me + 1;
            });
            return mix(seen, chosen);
        } catch (const std::runtime_error &) {
        }
    }
}

} // namespace

int main() {
    std::uint64_t results[5] = {}, hash = 0;
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t i = 0; i < 5; i++)
            threads.emplace_back([i, &results] { results[i] = body(i); });
    }
    REQUIRE(attempts == 8);
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(hash);
}
