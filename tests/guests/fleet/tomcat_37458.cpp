// Tomcat 37458, a rewrite of what its class loader does: an entry holds the bytes of a class until the class is defined. A thread that found the class undefined goes
// on to use bytes that another one has dropped since.
//# threads: 4
//# elements: 15
//# fails: signal SEGV
#include "threads.h"

namespace {

enum { LOADERS = 3, CLASSES = 6, PACKAGES = 2, SIGNED = 3, SLOT_US = 900 };

struct ResourceEntry {
    const unsigned char *volatile binary_content;
    const long *volatile loaded_class;
    volatile long last_modified;
    volatile int certificates;
    volatile int manifest;
    volatile int code_base;
};

const unsigned char bytes[4] = {0xca, 0xfe, 0xba, 0xbe};

} // namespace

ResourceEntry entries[CLASSES];
volatile int packages[PACKAGES];
volatile long classes[CLASSES];
volatile int is_started, repositories, not_found, reload_checks, parent_lookups;
pthread_mutex_t definitions = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t package_lock = PTHREAD_MUTEX_INITIALIZER;

namespace {

void define_package(int name) {
    pthread_mutex_lock(&package_lock);
    if (packages[name] == 0)
        packages[name] = name + 1;
    pthread_mutex_unlock(&package_lock);
}

const long *define_class(int name, const unsigned char *content) {
    pthread_mutex_lock(&definitions);
    classes[name] = content[0] << 8 | content[1];
    pthread_mutex_unlock(&definitions);
    return const_cast<const long *>(&classes[name]);
}

const long *find_class(int name) {
    ResourceEntry &entry = entries[name];
    if (entry.loaded_class != nullptr)
        return entry.loaded_class;
    if (entry.manifest + entry.certificates == 0)
        return nullptr;
    define_package(name % PACKAGES);
    if (entry.code_base != name)
        return nullptr;
    const long *found = define_class(name, entry.binary_content);
    entry.loaded_class = found;
    if (entry.certificates > 1)
        entry.binary_content = nullptr; /* No longer needed, so it is thought. */
    return found;
}

bool load_class(int name) {
    if (is_started == 0 || repositories == 0)
        return false;
    parent_lookups = parent_lookups + 1;
    const long *found = find_class(name);
    if (found == nullptr)
        not_found = not_found + 1;
    if (entries[name].last_modified > 0)
        reload_checks = reload_checks + 1;
    return found != nullptr && *const_cast<const volatile long *>(found) == 0xcafe;
}

void *loader(void *argument) {
    usleep(static_cast<unsigned>(reinterpret_cast<long>(argument) * SLOT_US));
    for (int name = 0; name < CLASSES; name++)
        if (!load_class(name))
            _exit(3);
    return nullptr;
}

} // namespace

int main() {
    for (int name = 0; name < CLASSES; name++) {
        entries[name].binary_content = bytes;
        entries[name].last_modified = name;
        entries[name].certificates = name == SIGNED ? 2 : 1;
        entries[name].manifest = 1;
        entries[name].code_base = name;
    }
    repositories = 1;
    is_started = 1;
    pthread_t threads[LOADERS];
    for (long i = 0; i < LOADERS; i++)
        start(&threads[i], loader, i);
    for (const pthread_t &thread : threads)
        finish(&thread);
    return not_found;
}
