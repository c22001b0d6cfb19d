// std::call_once (with a first attempt that throws) and function-local statics whose initialisation several threads reach
// at once; the loser waits for the winner.
//# threads: 5
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

thread_local std::uint64_t self;

struct Witness {
    std::uint64_t winner, work;
    Witness() : winner(self + 1), work(self) {
        for (int i = 0; i < 3000; i++)
            work = mix(work, static_cast<std::uint64_t>(i));
    }
};

template <int N> Witness &instance() {
    static Witness witness;
    return witness;
}

std::once_flag once;
int attempts;
std::uint64_t chosen;

void choose() {
    if (++attempts < 3)
        throw std::runtime_error("not yet");
    chosen = self + 1;
}

template <int... N> std::uint64_t all(std::integer_sequence<int, N...>) {
    std::uint64_t hash = 0;
    ((hash = mix(hash, instance<N>().winner)), ...);
    return hash;
}

std::uint64_t body(std::uint64_t me) {
    self = me;
    start_together(5);
    std::uint64_t hash = me;
    for (;;) {
        try {
            std::call_once(once, choose);
            break;
        } catch (const std::runtime_error &) {
            hash = mix(hash, 1); /* Who sees the exceptions differs from run to run. */
        }
    }
    hash = mix(hash, chosen);
    return mix(hash, all(std::make_integer_sequence<int, 6>()));
}

} // namespace

int main() {
    std::uint64_t results[5] = {}, hash = 0;
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t i = 0; i < 5; i++)
            threads.emplace_back([i, &results] { results[i] = body(i); });
    }
    REQUIRE(attempts == 3);
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(hash);
}
