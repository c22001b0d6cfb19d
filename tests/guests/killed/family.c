// A growing family that writes and forks, and kills all of itself when its member with the given number begins; then it is in a group of its own.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    int last = count > 1 ? atoi(arguments[1]) : 10;
    if (last <= 60)
        setpgid(0, 0);
    for (int member = 1; member <= 60; member++) {
        pid_t child = fork();
        if (child == 0) {
            if (member == last)
                kill(0, SIGKILL);
            char text[64];
            int length = snprintf(text, sizeof text, "member %d\n", member);
            write(1, text, length);
            if (fork() == 0) {
                length = snprintf(text, sizeof text, "child of member %d\n", member);
                write(1, text, length);
                _exit(0);
            }
            wait(NULL);
            _exit(0);
        }
        if (member % 3 == 0)
            waitpid(child, NULL, 0);
        write(1, "first\n", 6);
    }
    return 0;
}
