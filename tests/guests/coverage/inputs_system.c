// What a program can ask about itself and its machine, and randomness.
//# threads: 2
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

static void *body(void *argument) {
    uint64_t hash = (uintptr_t)argument, number = 0;
    char text[256] = "";
    struct utsname name;
    struct sysinfo machine;
    struct rlimit limit;
    cpu_set_t processors;
    REQUIRE(getrandom(&number, sizeof number, 0) == sizeof number);
    hash = mix(hash, number);
    int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    REQUIRE(file >= 0 && read(file, &number, sizeof number) == sizeof number && close(file) == 0);
    hash = mix(hash, number);
    hash = mix(hash, (uint64_t)getpid() + (uint64_t)getppid() * 3 + (uint64_t)gettid() * 5 + getuid());
    REQUIRE(uname(&name) == 0 && sysinfo(&machine) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    hash = mix(hash, machine.uptime + machine.freeram + limit.rlim_cur + (uint64_t)name.release[0]);
    REQUIRE(sched_getaffinity(0, sizeof processors, &processors) == 0);
    hash = mix(hash, (uint64_t)CPU_COUNT(&processors) + (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) + (uint64_t)sched_getcpu());
    ssize_t length = readlink("/proc/self/exe", text, sizeof text);
    REQUIRE(length > 0 && getcwd(text, sizeof text) != NULL);
    /* Output goes nowhere and is not readable again in a replay; the numbers are. */
    REQUIRE(open("/does/not/exist", O_RDONLY) == -1);
    return (void *)mix(hash, (uint64_t)length);
}

int main(void) {
    print_result(run_threads(2, body));
}
