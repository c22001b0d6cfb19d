// System calls that do not come from libc: by the program, by a library it is linked to, and by one that it loads,
// unloads and loads again; there from the first moment on. A file that exists twice would be an error.
//# threads: 1
//# library: linked.c
//# plugin: loaded.c
//# link: -ldl
//# scopes: memory sync inputs
//# expect: pass
#define _GNU_SOURCE
#include "raw.h"
#include <dlfcn.h>

uint64_t linked_inputs(uint64_t hash);

static uint64_t early;

__attribute__((constructor)) static void begin(void) { early = raw_inputs(1); }

static uint64_t load(uint64_t hash) {
    void *library = dlopen("./libloaded.so", RTLD_NOW);
    REQUIRE(library != NULL);
    hash = ((uint64_t(*)(uint64_t))dlsym(library, "loaded_inputs"))(hash);
    REQUIRE(dlclose(library) == 0);
    return hash;
}

static uint64_t through_pipe(uint64_t hash) {
    int ends[2];
    REQUIRE(raw_call(SYS_pipe, (long)ends, 0, 0, 0) == 0);
    REQUIRE(raw_call(SYS_write, ends[1], (long)&hash, sizeof hash, 0) == sizeof hash);
    uint64_t back = 0;
    REQUIRE(raw_call(SYS_read, ends[0], (long)&back, sizeof back, 0) == sizeof back);
    REQUIRE(back == hash);
    return mix(hash, (uint64_t)ends[0] << 32 | (uint64_t)ends[1]);
}

/* Which of them has its call beside a jump table is the compiler's choice. */
static uint64_t chosen(unsigned which, uint64_t hash) {
    switch (which) {
    case 0: return mix(hash, (uint64_t)raw_call(SYS_getppid, 0, 0, 0, 0));
    case 1: return raw_inputs(hash);
    case 2: return through_pipe(hash);
    case 3: return linked_inputs(hash);
    case 4: return load(hash);
    default: return mix(hash, (uint64_t)raw_call(SYS_gettid, 0, 0, 0, 0));
    }
}

int main(void) {
    long file = raw_call(SYS_openat, AT_FDCWD, (long)"made-once", O_CREAT | O_EXCL | O_WRONLY, 0600);
    REQUIRE(file >= 0);
    REQUIRE(raw_call(SYS_write, file, (long)"x", 1, 0) == 1);
    uint64_t hash = early;
    for (unsigned i = 0; i < 60; i++)
        hash = chosen(i % 6, hash);
    REQUIRE(raw_call(SYS_unlink, (long)"made-once", 0, 0, 0) == 0);
    REQUIRE(raw_call(SYS_unlink, (long)"made-once", 0, 0, 0) < 0);
    print_result(hash);
}
