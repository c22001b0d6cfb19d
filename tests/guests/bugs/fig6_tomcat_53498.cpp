// Light, figure 6 (7), Tomcat-53498: containsKey() followed by put() on a concurrent map. Each call is atomic, the
// pair is not: two threads register the same name, and what one of them had stored is lost.
//# threads: 4
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <cassert>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

class ConcurrentMap {
public:
    bool contains(const std::string &key) {
        std::lock_guard guard(mutex_);
        return map_.count(key) != 0;
    }
    void put(const std::string &key, std::uint64_t value) {
        std::lock_guard guard(mutex_);
        map_[key] = value;
    }
    std::uint64_t get(const std::string &key) {
        std::lock_guard guard(mutex_);
        return map_[key];
    }

private:
    std::mutex mutex_;
    std::map<std::string, std::uint64_t> map_;
};

ConcurrentMap map;

void register_once(const std::string &name, std::uint64_t me) {
    if (!map.contains(name)) {
        map.put(name, me);
        assert(map.get(name) == me && "somebody registered the same name");
    }
}

} // namespace

int main() {
    std::vector<std::jthread> threads;
    for (std::uint64_t me = 1; me <= 4; me++)
        threads.emplace_back([me] {
            start_together(4);
            for (int i = 0; i < 5; i++)
                register_once("parameter " + std::to_string(i), me);
        });
}
