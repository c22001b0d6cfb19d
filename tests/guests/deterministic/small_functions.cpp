// Threads race in functions that call nothing, or nothing but sqrt: methods of objects behind pointers, which are not inlined, and a linkonce one.
//# threads: 3
#include "../guest.h"
#include <cmath>
#include <memory>

struct Shape {
    virtual ~Shape() = default;
    virtual double area(int round) = 0;
};

struct Square : Shape {
    double side = 1;
    double area(int round) override {
        side = side * 1.01 + round % 7;
        if (side > 1e6)
            side = 1;
        return side * side;
    }
};

struct Circle : Shape {
    double square = 2;
    double area(int round) override {
        square = std::sqrt(square * 3 + round) + round % 5;
        return square;
    }
};

template <class T> __attribute__((noinline)) T mixed(T *total, T more) {
    *total = *total * T(31) + more;
    return *total;
}

static std::unique_ptr<Shape> shapes[2] = {std::make_unique<Square>(), std::make_unique<Circle>()};
static uint64_t total;

static void *work(void *argument) {
    uintptr_t me = (uintptr_t)argument;
    start_together(3);
    for (int round = 0; round < 500; round++) {
        double area = shapes[(round + me) % 2]->area(round);
        mixed<uint64_t>(&total, (uint64_t)area + me);
    }
    return nullptr;
}

int main() {
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], nullptr, work, (void *)i);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
    printf("%016lx %.6f %.6f\n", total, shapes[0]->area(0), shapes[1]->area(0));
}
