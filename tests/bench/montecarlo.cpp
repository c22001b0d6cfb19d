// MonteCarlo (Java Grande): price paths are simulated by tasks taken from a shared list; each allocates its path, and
// the results are collected under a lock in a vector of objects.
//# kind: mixed
//# flags: -O2
//# link: -lm
#include "bench.h"
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

namespace {

constexpr int TASKS = 24000 * SCALE, STEPS = 1000;

struct Path {
    explicit Path(std::size_t steps) : prices(steps) {}
    std::vector<double> prices;
};

struct Result { int task; double value; };

std::mutex task_mutex, result_mutex;
int next_task;
std::vector<std::unique_ptr<Result>> results;

double simulate(int task) {
    std::uint64_t random = static_cast<std::uint64_t>(task) * 7919 + 1;
    Path path(STEPS);
    double price = 100;
    for (double &slot : path.prices) {
        double noise = 0;
        for (int i = 0; i < 12; i++)
            noise += next_double(&random);
        price *= std::exp(0.0001 + 0.01 * (noise - 6));
        slot = price;
    }
    double sum = 0;
    for (double value : path.prices)
        sum += value;
    return sum / STEPS;
}

void *body(void *) {
    for (;;) {
        int task;
        {
            std::lock_guard guard(task_mutex);
            if (next_task == TASKS)
                return nullptr;
            task = next_task++;
        }
        double value = simulate(task);
        std::lock_guard guard(result_mutex);
        results.push_back(std::make_unique<Result>(Result{task, value}));
    }
}

} // namespace

int main() {
    run_team(body);
    std::vector<double> ordered(TASKS);
    for (const auto &result : results)
        ordered[static_cast<std::size_t>(result->task)] = result->value;
    double sum = 0;
    for (double value : ordered)
        sum += value;
    finish(static_cast<std::uint64_t>(sum * 10));
}
