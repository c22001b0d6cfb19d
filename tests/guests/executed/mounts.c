// Executes a program by a name that is something else for everybody who has not the same file systems mounted.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
    mkdir("folder", 0755);
    int file = open("folder/echo", O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (file < 0 || write(file, "#!/bin/sh\necho another one\n", 27) != 27 || close(file) != 0)
        return 2;
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return 3;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (mount("/usr/bin", "folder", NULL, MS_BIND, NULL) != 0)
        return 4;
    execl("folder/echo", "echo", "found", (char *)NULL);
    return 5;
}
