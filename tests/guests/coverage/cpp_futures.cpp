// std::async, promise, future, shared_future, packaged_task; an exception travels through a future.
//# threads: 12
//# expect: pass
#include "../guest.h"
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

volatile std::uint64_t racy;

std::uint64_t work(std::uint64_t me) {
    for (int i = 0; i < 2000; i++)
        racy = mix(racy, me);
    return racy;
}

} // namespace

int main() {
    std::uint64_t hash = 0;
    std::vector<std::future<std::uint64_t>> futures;
    for (std::uint64_t i = 0; i < 4; i++)
        futures.push_back(std::async(std::launch::async, work, i));
    futures.push_back(std::async(std::launch::deferred, work, 99u));

    std::packaged_task<std::uint64_t(std::uint64_t)> task(work);
    futures.push_back(task.get_future());
    std::jthread runner(std::move(task), 7u);

    std::promise<std::uint64_t> promise;
    std::shared_future<std::uint64_t> shared = promise.get_future().share();
    std::vector<std::future<std::uint64_t>> readers;
    for (std::uint64_t i = 0; i < 4; i++)
        readers.push_back(std::async(std::launch::async, [shared, i] { return mix(shared.get(), work(i)); }));
    promise.set_value(work(50));

    std::promise<int> broken;
    std::future<int> failure = broken.get_future();
    std::jthread thrower([&broken] { broken.set_exception(std::make_exception_ptr(std::runtime_error("broken"))); });
    try {
        failure.get();
        abort();
    } catch (const std::runtime_error &error) {
        hash = mix_bytes(hash, error.what(), strlen(error.what()));
    }
    for (auto &future : futures)
        hash = mix(hash, future.get());
    for (auto &future : readers)
        hash = mix(hash, future.get());
    print_result(hash);
}
