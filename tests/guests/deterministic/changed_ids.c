// libc has every thread change its ids when one does, by a signal of its own that comes to one that waits at a pipe: the read goes on.
//# threads: 2
#include "../guest.h"
#include <unistd.h>

static int ends[2];

static void *wait_for_byte(void *argument) {
    char byte = 0;
    REQUIRE(read(ends[0], &byte, 1) == 1);
    return (void *)(uintptr_t)byte;
}

int main(void) {
    pthread_t other;
    void *byte;
    REQUIRE(pipe(ends) == 0 && pthread_create(&other, 0, wait_for_byte, 0) == 0);
    usleep(20000); /* Until it waits. */
    for (int i = 0; i < 20; i++)
        REQUIRE(setregid(getgid(), getgid()) == 0);
    REQUIRE(write(ends[1], "!", 1) == 1);
    pthread_join(other, &byte);
    print_result((uintptr_t)byte);
}
