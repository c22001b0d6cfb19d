// std::latch, std::barrier with a completion function, counting_semaphore and binary_semaphore.
//# threads: 4
//# expect: pass
#include "../guest.h"
#include <barrier>
#include <latch>
#include <semaphore>
#include <thread>
#include <vector>

int main() {
    constexpr int THREADS = 4, ROUNDS = 40;
    std::uint64_t results[THREADS] = {}, completions = 0, chain = 0, hash = 0;
    volatile std::uint64_t racy = 0;
    std::latch start(THREADS);
    std::counting_semaphore<2> two(2);
    std::binary_semaphore one(1);
    std::barrier meeting(THREADS, [&]() noexcept { completions = mix(completions, racy); });
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t me = 0; me < THREADS; me++)
            threads.emplace_back([&, me] {
                std::uint64_t hash_ = me;
                start.arrive_and_wait();
                for (int i = 0; i < ROUNDS; i++) {
                    two.acquire();
                    racy = racy * 3 + me;
                    hash_ = mix(hash_, racy);
                    two.release();
                    if (one.try_acquire()) {
                        chain = mix(chain, me);
                        hash_ = mix(hash_, chain);
                        one.release();
                    }
                    meeting.arrive_and_wait();
                    hash_ = mix(hash_, completions);
                }
                results[me] = hash_;
            });
    }
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(mix(hash, completions));
}
