// A C program with a plugin in C++, which brings libstdc++ along for itself alone, and takes it away again.
#include "../../guest.h"
#include <dlfcn.h>

int main(void) {
    uint64_t hash = 0;
    for (int round = 0; round < 3; round++) {
        void *library = dlopen("./libplugin.so", RTLD_NOW | RTLD_LOCAL);
        if (!library)
            fprintf(stderr, "%s\n", dlerror());
        REQUIRE(library != NULL);
        uint64_t (*step)(void) = (uint64_t(*)(void))dlsym(library, "plugin_step");
        REQUIRE(step != NULL);
        REQUIRE(step() == 0); /* The initialisation throws. */
        uint64_t first = step();
        REQUIRE(first != 0 && step() == first);
        hash = mix(hash, first);
        REQUIRE(dlclose(library) == 0);
    }
    printf("%llu\n", (unsigned long long)hash);
}
