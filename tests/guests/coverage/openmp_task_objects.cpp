// OpenMP tasks with objects of their own: copied when the task is made, destroyed by whichever thread executes it, in memory that libomp
// passes on from task to task.
// stride and oreo go by values, and some of those that are read here are written by libomp, which is not observed.
//# threads: 4
//# not-by: stride oreo
//# flags: -O2 -fopenmp
//# needs: openmp
//# expect: pass
#include "../guest.h"
#include <omp.h>
#include <string>
#include <vector>

static uint64_t destroyed, copied;
static volatile uint64_t racy;

struct Counted {
    std::string name;
    explicit Counted(std::string name) : name(std::move(name)) {}
    Counted(const Counted &other) : name(other.name) {
#pragma omp atomic
        copied++;
    }
    ~Counted() {
        racy = racy * 3 + name.size() + static_cast<uint64_t>(omp_get_thread_num());
#pragma omp atomic
        destroyed++;
    }
};

int main() {
    omp_set_num_threads(4);
    std::vector<uint64_t> seen(300);
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 100; i++) {
        Counted object(std::string(static_cast<size_t>(i % 40), 'x') + std::to_string(i));
#pragma omp task firstprivate(object, i)
        seen[static_cast<size_t>(i)] = mix(object.name.size(), reinterpret_cast<uintptr_t>(&object) + static_cast<uint64_t>(omp_get_thread_num()));
        if (i % 3 == 0) {
#pragma omp task shared(seen) firstprivate(i)
            seen[static_cast<size_t>(100 + i)] = static_cast<uint64_t>(omp_get_thread_num());
        }
        if (i % 10 == 0) {
#pragma omp taskloop grainsize(3) firstprivate(object)
            for (int j = 0; j < 10; j++)
                seen[static_cast<size_t>(200 + (i + j) % 100)] += object.name.size();
        }
        if (i % 25 == 0) {
#pragma omp task if (0) firstprivate(object)
            seen[static_cast<size_t>(i)] += object.name.size();
        }
    }
    /* Each copy was destroyed once, and each original. */
    REQUIRE(destroyed == copied + 100);
    uint64_t hash = 0;
    for (uint64_t value : seen)
        hash = mix(hash, value);
    print_result(mix(mix(hash, racy), copied));
}
