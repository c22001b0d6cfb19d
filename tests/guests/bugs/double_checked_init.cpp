// Double-checked initialisation, wrongly: the pointer is published before the object is complete.
//# threads: 3
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <cassert>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Configuration {
    volatile int workers = 0;
    volatile int queue_length = 0;
};

class Registry {
public:
    Configuration *get() {
        if (instance_ == nullptr) {
            std::lock_guard guard(mutex_);
            if (instance_ == nullptr) {
                instance_ = &storage_; /* The bug: visible before the next two lines. */
                instance_->workers = 4;
                instance_->queue_length = 16;
            }
        }
        return instance_;
    }

private:
    std::mutex mutex_;
    Configuration storage_;
    Configuration *volatile instance_ = nullptr;
};

Registry registries[8];

} // namespace

int main() {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; t++)
        threads.emplace_back([] {
            start_together(3);
            for (Registry &registry : registries) {
                Configuration *configuration = registry.get();
                assert(configuration->workers == 4 && configuration->queue_length == 16);
            }
        });
}
