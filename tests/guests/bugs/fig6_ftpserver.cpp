// Light, figure 6 (2), Ftpserver: a connection's service loop uses its request and writer while close(), called by
// another thread, sets both to null. The loop tests only whether the connection was closed before each command.
//# threads: 2
//# fails: signal SEGV
//# chaos: 400
#include "../guest.h"
#include <string>
#include <thread>

namespace {

struct Request { std::uint64_t commands = 0; };
struct Writer { std::uint64_t bytes = 0; };

class Connection {
public:
    void serve() {
        while (!closed_) {
            std::uint64_t command = request_->commands++;
            std::string reply = "200 command " + std::to_string(command) + " okay";
            writer_->bytes += reply.size();
            if (command == 400)
                break; /* The client said QUIT. */
        }
    }
    void close() {
        closed_ = true;
        request_ = nullptr;
        writer_ = nullptr;
    }

private:
    Request request_object_;
    Writer writer_object_;
    volatile bool closed_ = false;
    Request *volatile request_ = &request_object_;
    Writer *volatile writer_ = &writer_object_;
};

} // namespace

int main() {
    Connection connection;
    std::jthread service([&connection] {
        start_together(2);
        connection.serve();
    });
    start_together(2);
    connection.close();
}
