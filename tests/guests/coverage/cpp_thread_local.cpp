// thread_local objects with constructors and destructors; the destructors run at the end of each thread and race.
//# threads: 6
//# expect: pass
#include "../guest.h"
#include <string>
#include <thread>
#include <vector>

namespace {

volatile std::uint64_t trail;

class Diary {
public:
    Diary() { trail = mix(trail, 1); }
    ~Diary() {
        for (char letter : text_)
            trail = mix(trail, static_cast<unsigned char>(letter));
    }
    void write(std::uint64_t value) { text_ += std::to_string(value); }

private:
    std::string text_ = "diary";
};

thread_local Diary diary;
thread_local std::vector<std::uint64_t> numbers(3, 7);

} // namespace

int main() {
    for (int wave = 0; wave < 5; wave++) {
        std::vector<std::jthread> threads;
        for (std::uint64_t i = 0; i < 6; i++)
            threads.emplace_back([i, wave] {
                start_together(6 * (static_cast<unsigned>(wave) + 1));
                for (std::uint64_t k = 0; k < 20; k++) {
                    diary.write(i * 100 + k);
                    numbers.push_back(std::uint64_t(trail));
                }
                REQUIRE(numbers.size() == 23);
                trail = mix(trail, numbers.back());
            });
    }
    print_result(trail);
}
