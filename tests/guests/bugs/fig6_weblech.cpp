// Light, figure 6 (8), Weblech: the spiders of a web crawler share a queue of addresses whose methods are
// synchronised. A spider asks whether the queue is empty and takes an address afterwards; another one may have taken
// the last.
//# threads: 3
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

class DownloadQueue {
public:
    std::size_t size() {
        std::lock_guard guard(mutex_);
        return addresses_.size();
    }
    void add(std::uint64_t address) {
        std::lock_guard guard(mutex_);
        addresses_.push_back(address);
    }
    std::uint64_t next() {
        std::lock_guard guard(mutex_);
        if (addresses_.empty())
            throw std::out_of_range("next() on an empty queue");
        std::uint64_t address = addresses_.front();
        addresses_.pop_front();
        return address;
    }

private:
    std::mutex mutex_;
    std::deque<std::uint64_t> addresses_;
};

DownloadQueue queue;

void spider() {
    start_together(3);
    while (queue.size() > 0) {
        std::uint64_t page = queue.next();
        if (page < 8) { /* A page with two links. */
            queue.add(2 * page);
            queue.add(2 * page + 1);
        }
    }
}

} // namespace

int main() {
    queue.add(1);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back(spider);
}
