// Output of one line by one system call: what a replay compares, and what orders threads.
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(1, line, (size_t)length) != length)
        _exit(9);
}

/* Time that is no system call. */
static inline void compute(int steps) {
    for (volatile int i = 0; i < steps; i++)
        ;
}
