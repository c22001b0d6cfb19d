// Executes a program that has no name, and one that is gone before it runs.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int copy_of(const char *path, int to) {
    struct stat status;
    int from = open(path, O_RDONLY);
    fstat(from, &status);
    char block[4096];
    for (ssize_t bytes; (bytes = read(from, block, sizeof block)) > 0;)
        write(to, block, bytes);
    close(from);
    return to;
}

int main(void) {
    if (fork() == 0) {
        int file = copy_of("/bin/echo", memfd_create("nameless", 0));
        fexecve(file, (char *[]){"echo", "from a memfd", NULL}, environ);
        _exit(1);
    }
    int status;
    wait(&status);
    printf("%d\n", status);
    fflush(stdout);
    if (fork() == 0) {
        int file = copy_of("/bin/echo", open("gone", O_RDWR | O_CREAT, 0700));
        close(file);
        file = open("gone", O_RDONLY | O_CLOEXEC);
        unlink("gone");
        fexecve(file, (char *[]){"echo", "from a file that is gone", NULL}, environ);
        _exit(1);
    }
    wait(&status);
    printf("%d\n", status);
    return 0;
}
