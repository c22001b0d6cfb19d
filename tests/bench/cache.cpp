// A server's cache: shards of strings to shared documents, each behind a reader-writer lock; what is missing is made and put in.
//# kind: locks
//# flags: -O2 -std=c++17
#include "bench.h"
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

enum { SHARDS = 16, HOT = 2000, COLD = 30000, MOST = 2000, REQUESTS = 1000000 };

struct Document {
    std::string body;
    std::string type = "application/json";
    std::atomic<uint32_t> uses{0};

    explicit Document(std::string body) : body(std::move(body)) {}
};

class Shard {
    std::shared_mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<Document>> documents;

public:
    std::shared_ptr<Document> find(const std::string &path) {
        std::shared_lock lock(mutex);
        auto found = documents.find(path);
        if (found == documents.end())
            return nullptr;
        found->second->uses.fetch_add(1, std::memory_order_relaxed);
        return found->second;
    }

    void put(const std::string &path, std::shared_ptr<Document> document) {
        std::unique_lock lock(mutex);
        documents[path] = std::move(document);
        if (documents.size() > MOST)
            documents.erase(documents.begin());
    }
};

static Shard shards[SHARDS];

static std::string render(unsigned id) {
    std::string text = "{\"id\":" + std::to_string(id) + ",\"items\":[";
    for (unsigned i = 0; i < 4 + id % 12; i++) {
        if (i)
            text += ',';
        text += "\"item-" + std::to_string(id * 31 + i) + '"';
    }
    return text + "]}";
}

static uint64_t serve(unsigned id, bool is_stale) {
    std::string path = "/user/" + std::to_string(id) + "/profile";
    Shard &shard = shards[std::hash<std::string>{}(path) % SHARDS];
    auto document = shard.find(path);
    if (!document || is_stale) {
        document = std::make_shared<Document>(render(id));
        shard.put(path, document);
    }
    std::string answer = "HTTP/1.1 200 OK\r\nContent-Type: " + document->type +
                         "\r\nContent-Length: " + std::to_string(document->body.size()) + "\r\n\r\n" + document->body;
    return answer.size() + (unsigned char)answer[answer.size() / 2];
}

int main() {
    std::vector<uint64_t> sums(THREADS * 16);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < THREADS; t++)
        threads.emplace_back([&sums, t] {
            uint64_t random = t + 1, sum = 0;
            for (int i = 0; i < REQUESTS * SCALE / THREADS; i++) {
                uint64_t number = next_random(&random);
                unsigned id = number % 100 < 80 ? (number >> 8) % HOT : (number >> 8) % COLD;
                /* An answer is made of its path alone, whoever made the document, so the sums are the same in every run. */
                sum += serve(id, (number >> 40) % 20 == 0);
            }
            sums[t * 16] = sum;
        });
    for (auto &thread : threads)
        thread.join();
    uint64_t sum = 0;
    for (uint64_t part : sums)
        sum += part;
    finish(sum);
}
