// std::atomic of numbers, pointers, enums, floating point and small structures; atomic_ref; wait and notify;
// atomic_flag.
//# threads: 4
//# flags: -O2 -mcx16
//# link: -latomic
//# expect: pass
#include "../guest.h"
#include <atomic>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t THREADS = 4, STEPS = 200;

enum class Colour : std::uint8_t { red, green, blue };
struct Small { std::uint16_t a, b, c; };             /* Six bytes: not a power of two. */
struct Large { std::uint64_t a, b; };

std::atomic<double> real = 1.0;
std::atomic<float> single = 1.0f;
std::atomic<Colour> colour = Colour::red;
std::atomic<Small> small = Small{1, 2, 3};
std::atomic<Large> large = Large{1, 2};
std::atomic<std::uint64_t *> pointer;
std::uint64_t targets[16];
alignas(8) std::uint64_t referenced;
std::atomic<std::uint32_t> turn;
std::atomic_flag flag;

std::uint64_t body(std::uint64_t me) {
    std::uint64_t hash = me;
    start_together(THREADS);
    for (std::uint64_t i = 0; i < STEPS; i++) {
        double seen = real.fetch_add(0.5 * static_cast<double>(me + 1));
        float fraction = single.exchange(static_cast<float>(i));
        hash = mix_bytes(mix_bytes(hash, &seen, sizeof seen), &fraction, sizeof fraction);
        colour = static_cast<Colour>((static_cast<unsigned>(colour.load()) + me) % 3);
        Small s = small.load();
        small.compare_exchange_strong(s, Small{static_cast<std::uint16_t>(s.a + me), s.b, s.c});
        Large l = large.load();
        while (!large.compare_exchange_weak(l, Large{l.a + me, l.b ^ hash}))
            hash = mix(hash, l.a);
        pointer = &targets[(i + me) % 16];
        hash = mix(hash, static_cast<std::uint64_t>(pointer.load() - targets));
        hash = mix(hash, std::atomic_ref(referenced).fetch_add(me + 1));
        hash = mix(hash, static_cast<std::uint64_t>(colour.load()) + s.a + l.b);
        hash = mix(hash, flag.test_and_set());
        flag.clear();
    }
    return hash;
}

/* A ring of threads that wake each other. */
std::uint64_t ring(std::uint64_t me) {
    std::uint64_t hash = me;
    for (std::uint32_t i = 0; i < 50; i++) {
        std::uint32_t now;
        while ((now = turn.load()) % THREADS != me)
            turn.wait(now);
        hash = mix(hash, referenced++);
        turn.fetch_add(1);
        turn.notify_all();
    }
    return hash;
}

} // namespace

int main() {
    std::uint64_t results[THREADS] = {}, hash = 0;
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t i = 0; i < THREADS; i++)
            threads.emplace_back([i, &results] { results[i] = mix(body(i), ring(i)); });
    }
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(hash);
}
