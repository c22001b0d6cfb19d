// A web server's pool of threads: requests come through a queue, documents from one cache of the least recently used, answers go back by futures.
//# kind: locks
//# flags: -O2 -std=c++17
#include "bench.h"
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

enum { ROOM = 1500, PAGES = 6000, REQUESTS = 120000, OUTSTANDING = 64 };

static void check(bool is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "web_cache: %s\n", what);
        abort();
    }
}

struct Answer {
    int status;
    std::string body;
    bool was_cached;
};

class Cache {
    using Entry = std::pair<std::string, std::string>;
    std::mutex mutex;
    /* The most recently used one is first. */
    std::list<Entry> entries;
    std::unordered_map<std::string, std::list<Entry>::iterator> by_path;

public:
    std::optional<std::string> find(const std::string &path) {
        std::lock_guard lock(mutex);
        auto found = by_path.find(path);
        if (found == by_path.end())
            return std::nullopt;
        entries.splice(entries.begin(), entries, found->second);
        return found->second->second;
    }

    void put(const std::string &path, const std::string &document) {
        std::lock_guard lock(mutex);
        auto found = by_path.find(path);
        if (found != by_path.end()) {
            found->second->second = document;
            return;
        }
        entries.emplace_front(path, document);
        by_path[path] = entries.begin();
        if (entries.size() > ROOM) {
            by_path.erase(entries.back().first);
            entries.pop_back();
        }
    }

    bool is_consistent() {
        std::lock_guard lock(mutex);
        return entries.size() == by_path.size() && entries.size() <= ROOM;
    }
};

class Pool {
    std::mutex mutex;
    std::condition_variable not_empty;
    std::deque<std::function<void()>> tasks;
    std::vector<std::thread> threads;
    bool is_closed = false;

    void work() {
        for (;;) {
            std::unique_lock lock(mutex);
            not_empty.wait(lock, [this] { return !tasks.empty() || is_closed; });
            if (tasks.empty())
                return;
            auto task = std::move(tasks.front());
            tasks.pop_front();
            lock.unlock();
            task();
        }
    }

public:
    explicit Pool(unsigned count) {
        for (unsigned i = 0; i < count; i++)
            threads.emplace_back([this] { work(); });
    }

    std::future<Answer> submit(std::function<Answer()> job) {
        auto task = std::make_shared<std::packaged_task<Answer()>>(std::move(job));
        auto answer = task->get_future();
        {
            std::lock_guard lock(mutex);
            tasks.emplace_back([task] { (*task)(); });
        }
        not_empty.notify_one();
        return answer;
    }

    ~Pool() {
        {
            std::lock_guard lock(mutex);
            is_closed = true;
        }
        not_empty.notify_all();
        for (auto &thread : threads)
            thread.join();
    }
};

static Cache cache;

static std::string render(const std::string &path) {
    uint64_t random = checksum_bytes(path.data(), path.size());
    std::string page = "<html><head><title>" + path + "</title></head><body><ul>";
    for (uint64_t i = 0, items = 10 + random % 20; i < items; i++)
        page += "<li>" + std::to_string(next_random(&random) % 100000) + "</li>";
    return page + "</ul></body></html>";
}

static Answer serve(const std::string &request) {
    std::string_view words = request;
    size_t end = words.find(' ', 4);
    if (words.substr(0, 4) != "GET " || end == words.npos)
        return {400, "", false};
    std::string path(words.substr(4, end - 4));
    auto document = cache.find(path);
    bool was_cached = document.has_value();
    if (!was_cached) {
        document = render(path);
        cache.put(path, *document);
    }
    std::string head = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(document->size()) + "\r\n\r\n";
    return {200, head + *document, was_cached};
}

int main() {
    uint64_t random = 1, sum = 0;
    unsigned long cached = 0, answered = 0;
    std::deque<std::pair<std::string, std::future<Answer>>> outstanding;
    auto receive = [&] {
        auto &[path, future] = outstanding.front();
        Answer answer = future.get();
        check(answer.status == 200 && answer.body.find("<title>" + path + "</title>") != answer.body.npos,
              "an answer is not that of its request");
        cached += answer.was_cached;
        answered++;
        sum = sum * 31 + checksum_bytes(answer.body.data(), answer.body.size());
        outstanding.pop_front();
    };
    {
        Pool pool(THREADS);
        for (int i = 0; i < REQUESTS * SCALE; i++) {
            uint64_t number = next_random(&random);
            /* Some are asked for much more often than others. */
            std::string path = "/articles/" + std::to_string(number % PAGES * ((number >> 20) % PAGES) / PAGES) + ".html";
            std::string request = "GET " + path + " HTTP/1.1\r\nHost: example.org\r\nAccept: text/html\r\n\r\n";
            outstanding.emplace_back(std::move(path), pool.submit([request = std::move(request)] { return serve(request); }));
            if (outstanding.size() == OUTSTANDING)
                receive();
        }
        while (!outstanding.empty())
            receive();
    }
    check(answered == (unsigned long)(REQUESTS * SCALE) && cached > 0 && cached < answered, "requests were lost");
    check(cache.is_consistent(), "the cache has lost entries");
    finish(sum);
}
