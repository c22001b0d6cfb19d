// Files and directories: made, written, read back, mapped, listed and removed; sizes and inode numbers are inputs.
//# threads: 3
//# expect: pass
#define _GNU_SOURCE
#include "../guest.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[64] = "/tmp/refrain-guest-XXXXXX";

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = mix(hash, (unsigned char)bytes[i]);
    return hash;
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    char path[128], other[160], first[8], second[32];
    struct stat status;
    snprintf(path, sizeof path, "%s/file-%d", folder, (int)me);
    snprintf(other, sizeof other, "%s.moved", path);
    FILE *stream = fopen(path, "w+");
    REQUIRE(stream != NULL);
    for (int i = 0; i < 2000; i++)
        fprintf(stream, "line %d of thread %d, process %d\n", i, (int)me, (int)getpid());
    rewind(stream);
    while (fgets(second, sizeof second, stream))
        hash = hash_bytes(hash, second, strlen(second));
    REQUIRE(fclose(stream) == 0);
    REQUIRE(rename(path, other) == 0 && stat(other, &status) == 0);
    hash = mix(hash, status.st_ino + (uint64_t)status.st_size + (uint64_t)status.st_mtim.tv_nsec);
    int file = open(other, O_RDWR);
    REQUIRE(file >= 0);
    struct iovec parts[2] = {{first, sizeof first}, {second, sizeof second}};
    REQUIRE(readv(file, parts, 2) == sizeof first + sizeof second);
    hash = hash_bytes(hash_bytes(hash, first, sizeof first), second, sizeof second);
    REQUIRE(pread(file, second, 5, 100) == 5 && lseek(file, 0, SEEK_END) == status.st_size);
    char *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    REQUIRE(mapped != MAP_FAILED);
    hash = hash_bytes(hash, mapped, (size_t)status.st_size);
    REQUIRE(munmap(mapped, (size_t)status.st_size) == 0 && ftruncate(file, 10) == 0 && close(file) == 0);
    REQUIRE(unlink(other) == 0 && access(other, F_OK) == -1);
    return (void *)hash;
}

int main(void) {
    REQUIRE(mkdtemp(folder) != NULL);
    uint64_t hash = run_threads(3, body);
    int entries = 0;
    DIR *directory = opendir(folder);
    REQUIRE(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory));)
        entries++;
    REQUIRE(closedir(directory) == 0 && rmdir(folder) == 0);
    print_result(hash_bytes(mix(hash, (uint64_t)entries), folder, strlen(folder)));
}
