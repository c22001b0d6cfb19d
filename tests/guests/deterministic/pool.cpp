// A pool of threads with a queue, condition variables, strings and containers; what it prints depends on who takes what.
//# threads: 4
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

static std::mutex lock;
static std::condition_variable more;
static std::queue<std::string> jobs;
static std::map<std::string, std::string> done;
static bool is_over;
static volatile unsigned hurried; // not under the lock, on purpose

static void work(int me) {
    for (;;) {
        std::unique_lock<std::mutex> guard(lock);
        more.wait(guard, [] { return is_over || !jobs.empty(); });
        if (jobs.empty())
            return;
        std::string job = jobs.front();
        jobs.pop();
        guard.unlock();
        for (int i = 0; i < 4; i++) {
            hurried = hurried * 3 + me;
            // On a busy machine one thread would do all jobs otherwise, and race with nobody.
            std::this_thread::yield();
        }
        std::string result = job + " by " + std::to_string(me) + " after " + std::to_string(hurried);
        guard.lock();
        done[job] = result;
    }
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back(work, i);
    for (int i = 0; i < 40; i++) {
        {
            std::lock_guard<std::mutex> guard(lock);
            jobs.push("job " + std::to_string(i));
        }
        more.notify_one();
    }
    {
        std::lock_guard<std::mutex> guard(lock);
        is_over = true;
    }
    more.notify_all();
    for (auto &thread : threads)
        thread.join();
    for (auto &[job, result] : done)
        std::printf("%s\n", result.c_str());
}
