// A program with a plugin that uses OpenMP, and so brings libomp along for itself alone. One thread: for scope inputs.
#include "../../guest.h"
#include <dlfcn.h>

int main(void) {
    /* Else libomp asks each processor who it is, by an instruction that is not recorded. */
    REQUIRE(setenv("KMP_AFFINITY", "disabled", 1) == 0);
    void *library = dlopen("./libplugin.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library != NULL);
    int (*sum)(int) = (int (*)(int))dlsym(library, "plugin_sum");
    REQUIRE(sum != NULL && sum(100) == 2 * 4950);
    puts("summed");
}
