// Several threads write to std::cout, std::cerr and printf: lines and pieces of lines come back in the same order.
//# threads: 4
//# expect: pass
#include "../guest.h"
#include <iostream>
#include <sstream>
#include <thread>
#include <vector>

int main() {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([i] {
            start_together(4);
            for (int k = 0; k < 40; k++) {
                std::ostringstream line;
                line << "thread " << i << " line " << k << '\n';
                if (k % 4 == 0)
                    std::cout << "thread " << i << " pieces " << k << std::endl;
                else if (k % 4 == 1)
                    std::cout << line.str() << std::flush;
                else if (k % 4 == 2)
                    printf("thread %d prints %d\n", i, k);
                else
                    std::cerr << line.str();
            }
        });
}
