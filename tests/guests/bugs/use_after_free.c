// Use after free: a connection is closed, poisoned and freed while another thread still uses it; the poisoned pointer
// in it is followed into nowhere.
//# threads: 2
//# fails: signal SEGV
//# chaos: 400
#include "../guest.h"

enum { CONNECTIONS = 150, USES = 8 };

struct connection {
    volatile uint64_t *volatile counter;
    uint64_t padding[3];
};

static struct connection *volatile current;
static volatile uint64_t counter;

static void open_connection(void) {
    struct connection *fresh = malloc(sizeof *fresh);
    fresh->counter = &counter;
    current = fresh;
}

static void use_connection(struct connection *connection) {
    for (int i = 0; i < USES; i++)
        (*connection->counter)++;
}

static void close_connection(void) {
    struct connection *old = current;
    current = NULL;
    /* What a debugging allocator does; a memset would be optimised away. */
    old->counter = (volatile uint64_t *)0x5a5a5a5a5a5a5a5a;
    free(old);
}

static void *body(void *argument) {
    for (int i = 0; i < CONNECTIONS; i++) {
        if (argument == NULL) {
            open_connection();
            use_connection(current);
            close_connection();
        } else {
            struct connection *seen = current;
            if (seen != NULL)
                use_connection(seen); /* The bug: it may be closed by now. */
        }
    }
    return NULL;
}

int main(void) { run_threads(2, body); }
