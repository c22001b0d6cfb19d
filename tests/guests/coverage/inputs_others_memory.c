// A parent that writes to the memory of its children, in every way there is: to one that waits for a pipe, and to one that is stopped and traced. What it writes is random.
//# threads: 1
//# scopes: inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 2000 };

static uint64_t words[WORDS];
static uint64_t *constant;

static uint64_t hash_all(void) {
    return mix_bytes(mix(0, *constant), words, sizeof words);
}

static void wait_for_end(pid_t child) {
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void wait_until_it_waits(pid_t child) {
    char path[64], state = 'R';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    while (state != 'S') {
        FILE *stat = fopen(path, "r");
        REQUIRE(stat != NULL && fscanf(stat, "%*d %*s %c", &state) == 1 && fclose(stat) == 0);
        usleep(200);
    }
}

// In front of the call in which it waits, the child overwrites what it would find if it were changed too early.
static pid_t begin_child(int ends[2]) {
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        char told;
        uint64_t me = (uint64_t)getpid();
        for (int i = 0; i < WORDS; i++)
            words[i] = me;
        REQUIRE(read(ends[0], &told, 1) == 1);
        printf("%016llx\n", (unsigned long long)hash_all());
        fflush(stdout);
        _exit(0);
    }
    REQUIRE(child > 0);
    return child;
}

static void change_by_call(void) {
    int ends[2];
    static uint64_t given[WORDS];
    pid_t child = begin_child(ends);
    wait_until_it_waits(child);
    REQUIRE(getrandom(given, sizeof given, 0) == sizeof given);
    struct iovec own[3] = {{given, 100}, {(char *)given + 100, 8000}, {(char *)given + 8100, 1000}};
    struct iovec others[2] = {{words, 4000}, {&words[700], 5100}};
    REQUIRE(process_vm_writev(child, own, 3, others, 2, 0) == 9100);
    REQUIRE(write(ends[1], "?", 1) == 1);
    wait_for_end(child);
}

static void change_by_file(void) {
    int ends[2];
    char path[64];
    uint64_t given[3];
    pid_t child = begin_child(ends);
    wait_until_it_waits(child);
    REQUIRE(getrandom(given, sizeof given, 0) == sizeof given);
    snprintf(path, sizeof path, "/proc/%d/task/%d/mem", (int)child, (int)child);
    int memory = dup(open(path, O_RDWR));
    REQUIRE(memory >= 0);
    REQUIRE(pwrite(memory, given, 8, (off_t)(uintptr_t)constant) == 8);
    struct iovec parts[2] = {{given, 12}, {(char *)given + 12, 12}};
    REQUIRE(pwritev(memory, parts, 2, (off_t)(uintptr_t)&words[10]) == 24);
    REQUIRE(lseek(memory, (off_t)(uintptr_t)&words[1990], SEEK_SET) > 0);
    REQUIRE(write(memory, given, 24) == 24);
    REQUIRE(write(ends[1], "?", 1) == 1);
    wait_for_end(child);
}

static void change_while_stopped(void) {
    pid_t child = fork();
    if (child == 0) {
        REQUIRE(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
        words[3] = 3;
        raise(SIGSTOP);
        // Behind its last input.
        if (words[3] == 3)
            _exit(1);
        _exit(0);
    }
    int status;
    uint64_t given;
    REQUIRE(getrandom(&given, sizeof given, 0) == sizeof given);
    REQUIRE(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    REQUIRE(ptrace(PTRACE_POKEDATA, child, &words[3], given | 4) == 0);
    REQUIRE(ptrace(PTRACE_DETACH, child, 0, 0) == 0);
    wait_for_end(child);
}

// A signal that would end the child is kept from it by who traces it.
static void keep_signal(int signal) {
    pid_t child = fork();
    if (child == 0) {
        REQUIRE(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
        if (signal == SIGTRAP)
            __asm__ volatile("int3");
        else
            raise(signal);
        _exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == signal);
    REQUIRE(ptrace(PTRACE_CONT, child, 0, 0) == 0);
    wait_for_end(child);
}

int main(void) {
    constant = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(constant != MAP_FAILED);
    change_by_call();
    change_by_file();
    change_while_stopped();
    keep_signal(SIGSEGV);
    keep_signal(SIGTRAP);
    print_result(hash_all());
    return 0;
}
