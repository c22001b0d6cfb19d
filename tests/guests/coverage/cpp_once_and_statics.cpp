// std::call_once and function-local statics whose initialisation several threads reach at once; the losers wait for
// the winner.
//# threads: 5
//# scopes: memory sync
//# expect: pass
#include "../guest.h"
#include <mutex>
#include <thread>
#include <utility>
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

std::once_flag once[4];
std::uint64_t chosen[4];

template <int... N> std::uint64_t all(std::integer_sequence<int, N...>) {
    std::uint64_t hash = 0;
    ((hash = mix(hash, instance<N>().winner)), ...);
    return hash;
}

std::uint64_t body(std::uint64_t me) {
    self = me;
    start_together(5);
    std::uint64_t hash = me;
    for (std::size_t i = 0; i < 4; i++) {
        std::call_once(once[i], [i] { chosen[i] = self + 1; });
        hash = mix(hash, chosen[i]);
    }
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
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(hash);
}
