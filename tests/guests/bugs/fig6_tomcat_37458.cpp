// Light, figure 6 (5), Tomcat-37458: a class loader's entry holds the bytes of a class until the class is defined. A
// thread that found the class undefined goes on to use bytes that another one has dropped since.
//# threads: 3
//# fails: signal SEGV
//# chaos: 400
#include "../guest.h"
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Entry {
    const unsigned char *volatile binary_content;
    const std::uint64_t *volatile loaded_class = nullptr;
};

const unsigned char bytes[4] = {0xca, 0xfe, 0xba, 0xbe};
std::mutex definitions;
std::uint64_t classes[8];
Entry entries[8];

const std::uint64_t *define(unsigned index, const unsigned char *content) {
    std::lock_guard guard(definitions);
    classes[index] = static_cast<std::uint64_t>(content[0]) << 8 | content[1];
    return &classes[index];
}

const std::uint64_t *find_class(unsigned index) {
    Entry &entry = entries[index];
    if (entry.loaded_class)
        return entry.loaded_class;
    const std::uint64_t *found = define(index, entry.binary_content);
    entry.loaded_class = found;
    entry.binary_content = nullptr; /* No longer needed, so it is thought. */
    return found;
}

} // namespace

int main() {
    for (Entry &entry : entries)
        entry.binary_content = bytes;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; t++)
        threads.emplace_back([] {
            start_together(3);
            for (unsigned i = 0; i < 8; i++)
                REQUIRE(*find_class(i) == 0xcafe);
        });
}
