// What is wrong shows in the limit, and an exception is thrown. What the destructor reads on the way out races, too, but
// came later.
//# threads: 2
//# fails: exit 1
#include "../guest.h"
#include <stdexcept>
#include <unistd.h>

static volatile int limit, statistics;

static void *body(void *argument) {
    limit = 7;
    statistics = 1;
    return argument;
}

struct Guard {
    ~Guard() { printf("%d\n", statistics); }
};

static NOINLINE void check() {
    Guard guard;
    if (limit > 3)
        throw std::runtime_error("too much");
}

int main() {
    pthread_t thread;
    pthread_create(&thread, nullptr, body, nullptr);
    usleep(50000);
    try {
        check();
    } catch (const std::runtime_error &error) {
        puts(error.what());
        return 1;
    }
    pthread_join(thread, nullptr);
}
