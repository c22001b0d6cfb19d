// Light, figure 6 (1), Cache4j: put() recycles a cache object by resetting it, creation time first, value last. get()
// takes the lock of the cache but not of the object: it finds the object valid by its new creation time and uses the
// value that is not there yet.
//# threads: 3
//# fails: signal SEGV
//# chaos: 400
#include "../guest.h"
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct CacheObject {
    volatile std::uint64_t create_time = 0;
    const std::uint64_t *volatile value = nullptr;

    void reset(std::uint64_t now) {
        value = nullptr;
        create_time = now;
    }
};

class Cache {
public:
    void put(int key, const std::uint64_t *value) {
        CacheObject *object = find(key);
        std::uint64_t now = clock_ + 1;
        clock_ = now;
        object->reset(now);
        object->value = value;
    }
    const std::uint64_t *get(int key) {
        CacheObject *object = find(key);
        return valid(*object) ? object->value : &missing_;
    }

private:
    CacheObject *find(int key) {
        std::lock_guard guard(mutex_);
        return &objects_[key];
    }
    bool valid(const CacheObject &object) const { return object.create_time != 0 && object.create_time + 50 > clock_; }

    std::mutex mutex_;
    std::map<int, CacheObject> objects_;
    volatile std::uint64_t clock_ = 0; /* Logical time. */
    const std::uint64_t missing_ = 0;
};

Cache cache;
const std::uint64_t values[] = {3, 5, 7};

} // namespace

int main() {
    std::vector<std::jthread> threads;
    threads.emplace_back([] {
        start_together(3);
        for (int i = 0; i < 60; i++)
            cache.put(i % 2, &values[i % 3]);
    });
    for (int t = 0; t < 2; t++)
        threads.emplace_back([] {
            start_together(3);
            std::uint64_t sum = 0;
            for (int i = 0; i < 60; i++)
                sum += *cache.get(i % 2);
            REQUIRE(sum <= 60 * 7);
        });
}
