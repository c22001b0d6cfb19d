// Producers and consumers: messages of strings and vectors through a bounded std::queue with two condition variables.
//# kind: locks
//# flags: -O2 -std=c++17
#include "bench.h"
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

enum { ROOM = 256, MESSAGES = 150000 };

struct Message {
    std::string topic;
    std::vector<uint32_t> payload;
};

class Channel {
    std::mutex mutex;
    std::condition_variable not_empty, not_full;
    std::queue<std::unique_ptr<Message>> messages;
    bool is_closed = false;

public:
    void send(std::unique_ptr<Message> message) {
        std::unique_lock lock(mutex);
        not_full.wait(lock, [this] { return messages.size() < ROOM; });
        messages.push(std::move(message));
        not_empty.notify_one();
    }

    /* Nothing: the channel is closed and empty. */
    std::unique_ptr<Message> receive() {
        std::unique_lock lock(mutex);
        not_empty.wait(lock, [this] { return !messages.empty() || is_closed; });
        if (messages.empty())
            return nullptr;
        auto message = std::move(messages.front());
        messages.pop();
        not_full.notify_one();
        return message;
    }

    void close() {
        std::lock_guard lock(mutex);
        is_closed = true;
        not_empty.notify_all();
    }
};

static Channel channel;

static void produce(unsigned me) {
    uint64_t random = me + 1;
    for (int i = 0; i < MESSAGES * SCALE / THREADS; i++) {
        auto message = std::make_unique<Message>();
        uint64_t number = next_random(&random);
        message->topic = "sensors/building-" + std::to_string(number % 17) + "/room-" + std::to_string((number >> 8) % 91);
        message->payload.resize(16 + (number >> 16) % 48);
        for (uint32_t &word : message->payload)
            word = (uint32_t)next_random(&random);
        channel.send(std::move(message));
    }
}

static uint64_t consume() {
    std::map<std::string, uint64_t> sums;
    while (auto message = channel.receive())
        for (uint32_t word : message->payload)
            sums[message->topic] += word ^ word >> 7;
    uint64_t sum = 0;
    for (auto &[topic, part] : sums)
        sum += part * topic.size();
    return sum;
}

int main() {
    /* As many consumers; which of them gets a message does not matter to the sum. */
    uint64_t sums[THREADS * 16] = {};
    std::vector<std::thread> producers, consumers;
    for (unsigned t = 0; t < THREADS; t++) {
        producers.emplace_back(produce, t);
        consumers.emplace_back([&sums, t] { sums[t * 16] = consume(); });
    }
    for (auto &thread : producers)
        thread.join();
    channel.close();
    for (auto &thread : consumers)
        thread.join();
    uint64_t sum = 0;
    for (unsigned t = 0; t < THREADS; t++)
        sum += sums[t * 16];
    finish(sum);
}
