// A library that is loaded while threads run, and whose state they then race on.
//# threads: 3
//# plugin: plugin.c
//# link: -ldl
//# expect: pass
#include "../../guest.h"
#include <dlfcn.h>
#include <stdatomic.h>

static _Atomic(uint64_t (*)(uint64_t)) step;
static volatile uint64_t early;

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me;
    uint64_t (*found)(uint64_t);
    while (!(found = atomic_load(&step)))
        early = mix(early, me); /* How often differs from run to run. */
    for (uint64_t i = 0; i < 300; i++)
        hash = mix(hash, found(me));
    return (void *)mix(hash, early);
}

static void *loader(void *argument) {
    (void)argument;
    void *library = dlopen("./libplugin.so", RTLD_NOW);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library != NULL);
    atomic_store(&step, (uint64_t(*)(uint64_t))dlsym(library, "plugin_step"));
    return NULL;
}

static void *dispatch(void *argument) { return (uintptr_t)argument == 2 ? loader(argument) : body(argument); }

int main(void) { print_result(run_threads(3, dispatch)); }
