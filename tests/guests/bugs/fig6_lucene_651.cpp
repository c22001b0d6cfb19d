// Light, figure 6 (4), Lucene-651: a field cache looks up a value under its lock, computes a missing one outside, and
// stores it under the lock: two threads compute the same field twice and hold different arrays.
//# threads: 2
//# fails: exit 1
//# chaos: 400
#include "../guest.h"
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace {

using Field = std::shared_ptr<std::uint64_t>;

std::mutex mutex;
std::map<std::string, Field> cache;

Field lookup(const std::string &name) {
    std::lock_guard guard(mutex);
    return cache[name];
}
void store(const std::string &name, const Field &field) {
    std::lock_guard guard(mutex);
    cache[name] = field;
}

Field get(const std::string &name) {
    Field field = lookup(name);
    if (!field) {
        field = std::make_shared<std::uint64_t>(name.size()); /* Stands for reading the whole index. */
        store(name, field);
    }
    return field;
}

Field seen[2][8];

void body(unsigned me) {
    start_together(2);
    for (unsigned i = 0; i < 3; i++)
        seen[me][i] = get("field " + std::to_string(i));
}

} // namespace

int main() {
    {
        std::jthread one(body, 0), two(body, 1);
    }
    for (unsigned i = 0; i < 3; i++)
        if (seen[0][i] != seen[1][i]) {
            fprintf(stderr, "field %u was computed twice\n", i);
            return 1;
        }
}
