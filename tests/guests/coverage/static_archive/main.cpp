// A C++ program linked with a static archive of a C and a C++ unit.
//# threads: 3
//# archive: bag.c census.cpp
//# expect: pass
#include "archive.h"
#include <thread>
#include <vector>

int main() {
    std::uint64_t results[3] = {}, hash = 0;
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t i = 0; i < 3; i++)
            threads.emplace_back([i, &results] {
                start_together(3);
                for (std::uint64_t k = 0; k < 800; k++) {
                    bag_put(k * 3 + i);
                    results[i] = mix(results[i], bag_sum());
                    results[i] = mix(results[i], census_add(k % 5));
                }
            });
    }
    for (std::uint64_t result : results)
        hash = mix(hash, result);
    print_result(hash);
}
