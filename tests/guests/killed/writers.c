// Children write to the common output and are killed after so many lines, each time after one more. Whoever comes next goes on writing.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(int child, int line) {
    char text[64];
    int length = snprintf(text, sizeof text, "child %d, line %d\n", child, line);
    write(1, text, length);
}

int main(void) {
    for (int child = 0; child < 40; child++) {
        int told[2];
        pipe(told);
        pid_t first = fork();
        if (first == 0) {
            for (int line = 0;; line++) {
                say(child, line);
                write(told[1], "x", 1);
            }
        }
        close(told[1]);
        // Killed right behind a line that it has told of, or within the next ones.
        char byte;
        for (int lines = 0; lines <= child % 10; lines++)
            read(told[0], &byte, 1);
        kill(first, SIGKILL);
        // Another one writes at the same time.
        pid_t second = fork();
        if (second == 0) {
            say(100 + child, 0);
            _exit(0);
        }
        waitpid(first, NULL, 0);
        waitpid(second, NULL, 0);
        close(told[0]);
        say(1000 + child, 0);
    }
    return 0;
}
