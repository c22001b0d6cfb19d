// Light, figure 6 (3), Lucene-481: a reader learns the name of the current index file and opens it without holding the
// commit lock; a committing writer replaces the file in between, and the reader fails with "file not found".
//# threads: 3
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

/* Every single operation is atomic, as on a real file system. */
class Directory {
public:
    void write(const std::string &name, std::uint64_t content) {
        std::lock_guard guard(mutex_);
        files_[name] = content;
    }
    void remove(const std::string &name) {
        std::lock_guard guard(mutex_);
        files_.erase(name);
    }
    std::uint64_t open(const std::string &name) {
        std::lock_guard guard(mutex_);
        auto file = files_.find(name);
        if (file == files_.end())
            throw std::runtime_error("file not found: " + name);
        return file->second;
    }

private:
    std::mutex mutex_;
    std::map<std::string, std::uint64_t> files_;
};

Directory directory;
std::mutex commit_lock;

std::string generation(std::uint64_t n) { return "segments_" + std::to_string(n); }

void commit() {
    std::lock_guard guard(commit_lock);
    std::uint64_t old = directory.open("segments");
    directory.write(generation(old + 1), old * 10);
    directory.write("segments", old + 1);
    directory.remove(generation(old));
}

std::uint64_t current_version() {
    /* The bug: no lock_guard on commit_lock here. */
    std::uint64_t now = directory.open("segments");
    return directory.open(generation(now));
}

} // namespace

int main() {
    directory.write("segments", 1);
    directory.write(generation(1), 0);
    std::vector<std::jthread> threads;
    threads.emplace_back([] {
        start_together(3);
        for (int i = 0; i < 4; i++)
            commit();
    });
    for (int t = 0; t < 2; t++)
        threads.emplace_back([] {
            start_together(3);
            for (int i = 0; i < 4; i++)
                current_version();
        });
}
