// Two threads use a container without a lock. The accesses are in the library's headers; the mistake is not.
//# threads: 2
//# fails: assert
#include "../guest.h"
#include <thread>
#include <unistd.h>
#include <vector>

static std::vector<int> numbers;

int main() {
    numbers.reserve(8);
    std::thread writer([] {
        usleep(50000);
        numbers.push_back(7);
    });
    usleep(100000);
    REQUIRE(numbers.size() == 0);
    writer.join();
}
