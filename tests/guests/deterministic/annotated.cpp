// `annotated FILE`: what is in FILE comes in by a way that nobody sees: a mapping that cannot be read when it is made. The program says so itself,
// unless it is built with -DSILENT.
//# threads: 2
#include "../guest.h"
#include <fcntl.h>
#include <refrain.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned taken;

static void *body(void *) {
    for (unsigned i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        taken++;
        pthread_mutex_unlock(&lock);
    }
    return nullptr;
}

int main(int argc, char *argv[]) {
    REQUIRE(argc == 2);
    pthread_t other;
    pthread_create(&other, nullptr, body, nullptr);
    int file = open(argv[1], O_RDONLY);
    REQUIRE(file >= 0);
    char *mapped = static_cast<char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE, file, 0));
    REQUIRE(mapped != MAP_FAILED && mprotect(mapped, 4096, PROT_READ) == 0);
#ifndef SILENT
    refrain_input(mapped, 5);
#endif
    pthread_mutex_lock(&lock);
    REQUIRE(write(1, "got it\n", 7) == 7);
    pthread_mutex_unlock(&lock);
    pthread_join(other, nullptr);
    printf("%u\n", taken);
    return mapped[0] == 0;
}
