// Signals that come while a call waits: with SA_RESTART the call goes on when the handler has run (a pipe that the handler itself writes to), without it
// and for sleeps it is interrupted. What is blocked in a handler, in sigsuspend and in ppoll; what a handler finds in its context, and what it may change there; handlers that are
// for one time only, that have a stack of their own, and that jump away.
//# expect: pass
//# scopes: memory sync inputs
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static int ends[2];
static volatile sig_atomic_t seen;
static sigjmp_buf out;

static int blocks(int signal) {
    sigset_t now;
    REQUIRE(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
    return sigismember(&now, signal);
}

static void on_signal(int number, void (*handler)(int), int flags, int also) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    if (also)
        sigaddset(&action.sa_mask, also);
    REQUIRE(sigaction(number, &action, NULL) == 0);
}

static void come_after(long us) {
    struct itimerval timer = {{0, 0}, {0, us}};
    seen = 0;
    REQUIRE(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* The signal comes once, while something waits. */
static void come_soon(void) { come_after(20000); }

static void write_byte(int signal) {
    (void)signal;
    seen++;
    REQUIRE(write(ends[1], "x", 1) == 1);
}

static void note(int signal) {
    (void)signal;
    seen++;
}

static void look(int signal, siginfo_t *info, void *context) {
    ucontext_t *interrupted = context;
    REQUIRE(info->si_signo == signal && blocks(signal) && blocks(SIGUSR2));
    REQUIRE(!sigismember(&interrupted->uc_sigmask, signal) && sigismember(&interrupted->uc_sigmask, SIGHUP));
    REQUIRE(interrupted->uc_mcontext.gregs[REG_RIP] != 0);
    /* Of what the kernel gives back, SIGHUP is not blocked any more. */
    sigdelset(&interrupted->uc_sigmask, SIGHUP);
    seen++;
}

static void suspended(int signal) {
    REQUIRE(blocks(signal) && !blocks(SIGUSR2) && blocks(SIGHUP));
    seen++;
}

static char *own_stack;
#define OWN_STACK_BYTES (1 << 19)

static void on_own_stack(int signal) {
    (void)signal;
    char here;
    REQUIRE(&here > own_stack && &here < own_stack + OWN_STACK_BYTES);
    seen++;
}

static void jump(int signal) {
    (void)signal;
    siglongjmp(out, 7);
}

static sigset_t set_of(int signal) {
    sigset_t set;
    sigemptyset(&set);
    if (signal)
        sigaddset(&set, signal);
    return set;
}

int main(void) {
    char byte;
    REQUIRE(pipe(ends) == 0);
    for (int i = 0; i < 3; i++) {
        on_signal(SIGALRM, write_byte, SA_RESTART, 0);
        come_soon();
        REQUIRE(read(ends[0], &byte, 1) == 1 && byte == 'x' && seen == 1);
    }

    on_signal(SIGALRM, note, 0, 0);
    come_soon();
    REQUIRE(read(ends[0], &byte, 1) == -1 && errno == EINTR && seen == 1);

    on_signal(SIGALRM, note, SA_RESTART, 0);
    come_soon();
    struct timespec nap = {5, 0};
    REQUIRE(nanosleep(&nap, &nap) == -1 && errno == EINTR && seen == 1 && nap.tv_sec == 4);
    come_soon();
    struct pollfd readable = {ends[0], POLLIN, 0};
    REQUIRE(poll(&readable, 1, 5000) == -1 && errno == EINTR && seen == 1);

    /* Looking at a clock, until the handler says stop. */
    come_after(500);
    while (!seen)
        clock_gettime(CLOCK_MONOTONIC, &nap);

    /* A child is waited for; the handler does not make that fail. */
    int child = fork();
    if (child == 0) {
        usleep(60000);
        _exit(5);
    }
    come_soon();
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5 && seen == 1);

    struct sigaction looking = {.sa_sigaction = look, .sa_flags = SA_SIGINFO};
    looking.sa_mask = set_of(SIGUSR2);
    REQUIRE(sigaction(SIGUSR1, &looking, NULL) == 0);
    sigset_t hangup = set_of(SIGHUP);
    REQUIRE(sigprocmask(SIG_BLOCK, &hangup, NULL) == 0);
    seen = 0;
    raise(SIGUSR1);
    REQUIRE(seen == 1 && !blocks(SIGHUP) && !blocks(SIGUSR1) && !blocks(SIGUSR2));

    /* Blocked, except while waiting. */
    sigset_t both = set_of(SIGALRM), only = set_of(SIGHUP);
    sigaddset(&both, SIGUSR2);
    on_signal(SIGALRM, suspended, 0, 0);
    REQUIRE(sigprocmask(SIG_BLOCK, &both, NULL) == 0);
    come_soon();
    REQUIRE(sigsuspend(&only) == -1 && errno == EINTR && seen == 1);
    REQUIRE(blocks(SIGALRM) && blocks(SIGUSR2) && !blocks(SIGHUP));
    come_soon();
    REQUIRE(ppoll(NULL, 0, NULL, &only) == -1 && errno == EINTR && seen == 1 && blocks(SIGALRM));
    seen = 0;
    raise(SIGALRM);
    REQUIRE(seen == 0);
    on_signal(SIGALRM, note, 0, 0);
    REQUIRE(sigprocmask(SIG_UNBLOCK, &both, NULL) == 0 && seen == 1);

    /* Once only. */
    on_signal(SIGUSR2, note, SA_RESETHAND, 0);
    raise(SIGUSR2);
    struct sigaction now;
    REQUIRE(seen == 2 && sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == SIG_DFL);

    own_stack = malloc(OWN_STACK_BYTES);
    stack_t stack = {.ss_sp = own_stack, .ss_size = OWN_STACK_BYTES};
    REQUIRE(sigaltstack(&stack, NULL) == 0);
    on_signal(SIGUSR2, on_own_stack, SA_ONSTACK, 0);
    raise(SIGUSR2);
    REQUIRE(seen == 3);

    on_signal(SIGALRM, jump, 0, 0);
    come_soon();
    if (sigsetjmp(out, 1) == 0) {
        pause();
        REQUIRE(!"comes back");
    }
    REQUIRE(!blocks(SIGALRM));
    printf("done\n");
    return 0;
}
