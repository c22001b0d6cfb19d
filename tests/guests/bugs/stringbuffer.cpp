// StringBuffer: append() asks the other buffer for its length and copies that many characters afterwards. Both calls
// hold the other's lock, but between them it may be cut short.
//# threads: 2
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

class StringBuffer {
public:
    explicit StringBuffer(const char *text) : text_(text) {}

    std::size_t length() {
        std::lock_guard guard(mutex_);
        return text_.size();
    }
    void set_length(std::size_t length) {
        std::lock_guard guard(mutex_);
        text_.resize(length);
    }
    void get_chars(std::size_t count, std::string &to) {
        std::lock_guard guard(mutex_);
        if (count > text_.size())
            throw std::out_of_range("get_chars: the buffer has become shorter");
        to.append(text_, 0, count);
    }
    void append(StringBuffer &other) {
        std::lock_guard guard(mutex_);
        std::size_t count = other.length();
        other.get_chars(count, text_);
    }

private:
    std::mutex mutex_;
    std::string text_;
};

} // namespace

int main() {
    StringBuffer buffer("text "), other("abcdefgh");
    std::jthread eraser([&other] {
        start_together(2);
        for (std::size_t length = 8; length-- > 0;)
            other.set_length(length);
    });
    start_together(2);
    for (int i = 0; i < 6; i++)
        buffer.append(other);
}
