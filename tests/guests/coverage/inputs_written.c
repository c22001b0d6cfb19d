// Calls that write where other arguments say, or behind pointers, or although they fail: ioctls of the old kind and of the new one, System V's
// queues, semaphores and segments, clocks that are adjusted, capabilities, handles, several messages at once, asynchronous input; and numbers that are no calls.
//# threads: 1
//# scopes: memory sync inputs
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static uint64_t hash;

static void fold(const void *bytes, size_t count) {
    hash = mix_bytes(hash, bytes, count);
}

/* Bytes that no two runs have in common. */
static void dice(void *bytes, size_t count) {
    REQUIRE(getrandom(bytes, count, 0) == (ssize_t)count);
}

static void ioctls(void) {
    int ends[2], number = 0;
    char bytes[200];
    dice(bytes, sizeof bytes);
    REQUIRE(pipe(ends) == 0 && write(ends[1], bytes, (bytes[0] & 63) + 1) > 0);
    REQUIRE(ioctl(ends[0], FIONREAD, &number) == 0);
    fold(&number, sizeof number);

    int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (terminal >= 0) {
        struct winsize size = {0}, given = {0};
        struct termios attributes;
        dice(&given, sizeof given);
        REQUIRE(ioctl(terminal, TIOCSWINSZ, &given) == 0 && ioctl(terminal, TIOCGWINSZ, &size) == 0);
        REQUIRE(tcgetattr(terminal, &attributes) == 0 && ioctl(terminal, TIOCGPTN, &number) == 0);
        fold(&size, sizeof size);
        fold(&attributes.c_cc, sizeof attributes.c_cc);
        fold(&number, sizeof number);
        close(terminal);
    }

    char name[] = "written-XXXXXX";
    int file = mkstemp(name), block = 0;
    REQUIRE(file >= 0 && unlink(name) == 0 && ioctl(file, FIGETBSZ, &block) == 0);
    fold(&block, sizeof block);
    long version = 0;
    if (ioctl(file, FS_IOC_GETVERSION, &version) == 0)
        fold(&version, sizeof version);
    close(file);

    int link = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq requests[32], request = {.ifr_ifindex = 1};
    struct ifconf all = {.ifc_len = sizeof requests, .ifc_req = requests};
    memset(requests, 0, sizeof requests);
    REQUIRE(link >= 0 && ioctl(link, SIOCGIFCONF, &all) == 0);
    fold(&all.ifc_len, sizeof all.ifc_len);
    fold(requests, (size_t)all.ifc_len);
    if (ioctl(link, SIOCGIFNAME, &request) == 0)
        fold(request.ifr_name, strlen(request.ifr_name));
    close(link);
}

static void system_five(void) {
    struct {
        long kind;
        char text[64];
    } sent = {.kind = 1}, got;
    struct msqid_ds about_queue;
    struct shmid_ds about_segment;
    unsigned short values[3] = {0}, given[3];
    dice(sent.text, sizeof sent.text);
    dice(given, sizeof given);
    for (int i = 0; i < 3; i++)
        given[i] &= 0xfff;
    int queue = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 3, 0600), segment = shmget(IPC_PRIVATE, 5000, 0600);
    if (queue >= 0) {
        REQUIRE(msgsnd(queue, &sent, sizeof sent.text, 0) == 0 && msgctl(queue, IPC_STAT, &about_queue) == 0);
        REQUIRE(msgrcv(queue, &got, sizeof got.text, 0, 0) == (ssize_t)sizeof got.text && msgctl(queue, IPC_RMID, NULL) == 0);
        fold(got.text, sizeof got.text);
        fold(&about_queue.msg_stime, sizeof about_queue.msg_stime);
    }
    if (set >= 0) {
        REQUIRE(semctl(set, 0, SETALL, given) == 0 && semctl(set, 0, GETALL, values) == 0 && semctl(set, 0, IPC_RMID) == 0);
        fold(values, sizeof values);
    }
    if (segment >= 0) {
        unsigned char *one = shmat(segment, NULL, 0), *other = shmat(segment, NULL, 0);
        REQUIRE(one != (void *)-1 && other != (void *)-1 && one != other);
        dice(one, 5000);
        fold(other, 5000);
        REQUIRE(shmctl(segment, IPC_STAT, &about_segment) == 0 && shmctl(segment, IPC_RMID, NULL) == 0);
        fold(&about_segment.shm_atime, sizeof about_segment.shm_atime);
        REQUIRE(shmdt(one) == 0 && shmdt(other) == 0);
    }
}

static void about_itself(void) {
    struct timex clock = {0};
    if (adjtimex(&clock) >= 0)
        fold(&clock.time, sizeof clock.time);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct rights[2] = {{0}};
    REQUIRE(syscall(SYS_capget, &head, rights) == 0);
    fold(rights, sizeof rights);
    head.version = 1;
    syscall(SYS_capget, &head, NULL);
    fold(&head.version, sizeof head.version);
    uint32_t attributes[12] = {0};
    REQUIRE(syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0) == 0);
    fold(attributes, sizeof attributes);
    int mode = -1;
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0)
        fold(&mode, sizeof mode);
    struct {
        struct file_handle head;
        unsigned char room[128];
    } handle = {.head.handle_bytes = 0};
    int mount = 0;
    if (name_to_handle_at(AT_FDCWD, ".", &handle.head, &mount, 0) == -1 && errno == EOVERFLOW) {
        REQUIRE(handle.head.handle_bytes > 0);
        if (name_to_handle_at(AT_FDCWD, ".", &handle.head, &mount, 0) == 0)
            fold(handle.room, handle.head.handle_bytes);
        fold(&mount, sizeof mount);
    }
}

static void messages(void) {
    int ends[2];
    char sent[3][40], got[3][40];
    struct iovec out[3], in[3];
    struct mmsghdr outgoing[3] = {{.msg_len = 0}}, incoming[3] = {{.msg_len = 0}};
    dice(sent, sizeof sent);
    for (int i = 0; i < 3; i++) {
        out[i] = (struct iovec){sent[i], 10 + 10 * (size_t)i};
        in[i] = (struct iovec){got[i], sizeof got[i]};
        outgoing[i].msg_hdr = (struct msghdr){.msg_iov = &out[i], .msg_iovlen = 1};
        incoming[i].msg_hdr = (struct msghdr){.msg_iov = &in[i], .msg_iovlen = 1};
    }
    REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 && sendmmsg(ends[0], outgoing, 3, 0) == 3);
    REQUIRE(recvmmsg(ends[1], incoming, 3, 0, NULL) == 3);
    for (int i = 0; i < 3; i++) {
        REQUIRE(outgoing[i].msg_len == incoming[i].msg_len);
        fold(got[i], incoming[i].msg_len);
    }
}

static void asynchronous(void) {
    aio_context_t context = 0;
    char name[] = "written-XXXXXX", out[64], in[64] = {0};
    int file = mkstemp(name);
    dice(out, sizeof out);
    REQUIRE(file >= 0 && unlink(name) == 0 && write(file, out, sizeof out) == sizeof out);
    if (syscall(SYS_io_setup, 4, &context) != 0)
        return;
    struct iocb block = {.aio_fildes = (uint32_t)file, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (uintptr_t)in, .aio_nbytes = sizeof in};
    struct iocb *blocks[] = {&block};
    struct io_event event;
    REQUIRE(syscall(SYS_io_submit, context, 1, blocks) == 1 && syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1);
    REQUIRE(event.res == sizeof in && memcmp(in, out, sizeof in) == 0);
    fold(in, sizeof in);
    REQUIRE(syscall(SYS_io_destroy, context) == 0);
}

static void nothing(int number) {
    (void)number;
}

/* What is left of a sleep is written when it fails. */
static void interrupted(void) {
    struct sigaction action = {.sa_handler = nothing};
    struct itimerval soon = {.it_value = {0, 20000}};
    struct timespec whole = {1, 0}, left = {0, 0};
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    REQUIRE(syscall(SYS_nanosleep, &whole, &left) == -1 && errno == EINTR && left.tv_nsec != 0);
    fold(&left, sizeof left);
}

static void no_calls(void) {
    for (long number = -3; number < 0; number++)
        REQUIRE(syscall(number, 1, 2, 3) == -1 && errno == ENOSYS);
    for (long number = 400; number < 100000; number = number * 10)
        REQUIRE(syscall(number, 0, 0, 0) == -1 && errno == ENOSYS);
}

int main(void) {
    ioctls();
    system_five();
    about_itself();
    messages();
    asynchronous();
    interrupted();
    no_calls();
    print_result(hash);
}
