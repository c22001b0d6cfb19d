// Radiosity in the manner of Splash: patches in quadtrees that are divided on demand, tasks in a queue for each thread, and theft from the others' queues.
//# kind: locks
//# flags: -O2
#include "bench.h"
#include <math.h>

enum { SIDE = 6, ROOTS = 6 * SIDE * SIDE, DEEPEST = 4, ROUNDS = 12 };

/* Energy is counted in whole parts, so that sums do not depend on the order in which neighbours are added. */
#define WHOLE 1048576.0
#define TOO_BRIGHT 0.0004

struct interaction { struct patch *source; uint32_t factor; struct interaction *next; };

struct patch {
    pthread_mutex_t mutex;
    double centre[3], normal[3], axes[2][3], size;
    int depth;
    struct patch *parent, *children[4];
    struct interaction *interactions;
    uint64_t emitted, gathered, radiosity;
};

enum kind { REFINE, GATHER };

struct task { enum kind kind; struct patch *receiver, *source; struct task *next; };

static struct queue {
    pthread_mutex_t mutex;
    struct task *first;
    unsigned long done, stolen;
} queues[THREADS];

static struct patch *roots[ROOTS];
static pthread_mutex_t count_mutex = PTHREAD_MUTEX_INITIALIZER;
static long unfinished;
static unsigned long interactions_made, patches_made;

static void check(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "radiosity: %s\n", what);
        abort();
    }
}

static void count_task(long change) {
    pthread_mutex_lock(&count_mutex);
    unfinished += change;
    pthread_mutex_unlock(&count_mutex);
}

static void push(size_t me, enum kind kind, struct patch *receiver, struct patch *source) {
    struct task *task = malloc(sizeof *task);
    *task = (struct task){kind, receiver, source, NULL};
    count_task(1);
    struct queue *queue = &queues[me];
    pthread_mutex_lock(&queue->mutex);
    task->next = queue->first;
    queue->first = task;
    pthread_mutex_unlock(&queue->mutex);
}

static struct task *pop(size_t me) {
    for (size_t i = 0; i < THREADS; i++) {
        struct queue *queue = &queues[(me + i) % THREADS];
        pthread_mutex_lock(&queue->mutex);
        struct task *task = queue->first;
        if (task) {
            queue->first = task->next;
            if (i)
                queue->stolen++;
        }
        pthread_mutex_unlock(&queue->mutex);
        if (task)
            return task;
    }
    return NULL;
}

static struct patch *new_patch(const double *centre, const double *normal, double (*axes)[3], double size, struct patch *parent) {
    struct patch *patch = calloc(1, sizeof *patch);
    pthread_mutex_init(&patch->mutex, NULL);
    memcpy(patch->centre, centre, sizeof patch->centre);
    memcpy(patch->normal, normal, sizeof patch->normal);
    memcpy(patch->axes, axes, sizeof patch->axes);
    patch->size = size;
    patch->parent = parent;
    patch->depth = parent ? parent->depth + 1 : 0;
    return patch;
}

/* Whoever comes first divides a patch; its lock is held. */
static void divide(struct patch *patch) {
    for (int i = 0; i < 4; i++) {
        double centre[3], a = (i & 1 ? 0.25 : -0.25) * patch->size, b = (i & 2 ? 0.25 : -0.25) * patch->size;
        for (int k = 0; k < 3; k++)
            centre[k] = patch->centre[k] + a * patch->axes[0][k] + b * patch->axes[1][k];
        patch->children[i] = new_patch(centre, patch->normal, patch->axes, patch->size / 2, patch);
    }
}

static double form_factor(const struct patch *to, const struct patch *from) {
    double way[3], distance = 0, there = 0, here = 0;
    for (int k = 0; k < 3; k++) {
        way[k] = from->centre[k] - to->centre[k];
        distance += way[k] * way[k];
    }
    for (int k = 0; k < 3; k++) {
        there += way[k] * to->normal[k];
        here -= way[k] * from->normal[k];
    }
    if (there <= 0 || here <= 0 || distance < 1e-9)
        return 0;
    double area = from->size * from->size;
    return there * here * area / (distance * (3.14159265358979 * distance + area));
}

static void refine(size_t me, struct patch *receiver, struct patch *source) {
    double factor = form_factor(receiver, source);
    if (factor == 0)
        return;
    if (factor * receiver->size > TOO_BRIGHT && receiver->depth < DEEPEST) {
        pthread_mutex_lock(&receiver->mutex);
        if (!receiver->children[0])
            divide(receiver);
        pthread_mutex_unlock(&receiver->mutex);
        for (int i = 0; i < 4; i++)
            push(me, REFINE, receiver->children[i], source);
        return;
    }
    struct interaction *interaction = malloc(sizeof *interaction);
    interaction->source = source;
    interaction->factor = (uint32_t)(factor * WHOLE);
    pthread_mutex_lock(&receiver->mutex);
    interaction->next = receiver->interactions;
    receiver->interactions = interaction;
    pthread_mutex_unlock(&receiver->mutex);
}

/* What comes to a patch from everywhere, and goes on to its children. */
static void gather(size_t me, struct patch *patch) {
    uint64_t sum = patch->parent ? patch->parent->gathered : 0;
    for (struct interaction *interaction = patch->interactions; interaction; interaction = interaction->next)
        sum += (interaction->source->radiosity * interaction->factor) >> 20;
    pthread_mutex_lock(&patch->mutex);
    patch->gathered = sum;
    pthread_mutex_unlock(&patch->mutex);
    for (int i = 0; i < 4 && patch->children[0]; i++)
        push(me, GATHER, patch->children[i], NULL);
}

static void work(size_t me) {
    for (;;) {
        struct task *task = pop(me);
        if (!task) {
            pthread_mutex_lock(&count_mutex);
            long left = unfinished;
            pthread_mutex_unlock(&count_mutex);
            if (!left)
                return;
            sched_yield();
            continue;
        }
        if (task->kind == REFINE)
            refine(me, task->receiver, task->source);
        else
            gather(me, task->receiver);
        free(task);
        queues[me].done++;
        count_task(-1);
    }
}

/* What a patch sends out in the next round: the mean of its children, or what it has gathered, with what it emits. */
static uint64_t settle(struct patch *patch) {
    patches_made++;
    for (struct interaction *interaction = patch->interactions; interaction; interaction = interaction->next)
        interactions_made++;
    if (!patch->children[0])
        return patch->radiosity = patch->emitted + patch->gathered * 7 / 10;
    uint64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        patch->children[i]->emitted = patch->emitted;
        sum += settle(patch->children[i]);
    }
    return patch->radiosity = sum / 4;
}

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    for (size_t i = share(me, ROOTS); i < share(me + 1, ROOTS); i++)
        for (size_t k = 0; k < ROOTS; k++)
            if (roots[k] != roots[i])
                push(me, REFINE, roots[i], roots[k]);
    meet();
    work(me);
    for (int round = 0; round < ROUNDS * SCALE; round++) {
        meet();
        if (me == 0) {
            interactions_made = patches_made = 0;
            for (size_t i = 0; i < ROOTS; i++)
                settle(roots[i]);
            /* All of them are one thread's; the others take from it. */
            for (size_t i = 0; i < ROOTS; i++)
                push(me, GATHER, roots[i], NULL);
        }
        meet();
        work(me);
    }
    return NULL;
}

/* The inside of a cube, each side of SIDE by SIDE patches; one of them is a lamp. */
static void build_room(void) {
    size_t made = 0;
    for (int side = 0; side < 6; side++)
        for (int i = 0; i < SIDE * SIDE; i++) {
            double centre[3], normal[3] = {0}, axes[2][3] = {{0}};
            int k = side / 2;
            centre[k] = side % 2;
            normal[k] = side % 2 ? -1 : 1;
            centre[(k + 1) % 3] = (i % SIDE + 0.5) / SIDE;
            centre[(k + 2) % 3] = (i / SIDE + 0.5) / SIDE;
            axes[0][(k + 1) % 3] = axes[1][(k + 2) % 3] = 1;
            roots[made++] = new_patch(centre, normal, axes, 1.0 / SIDE, NULL);
        }
    roots[SIDE * SIDE / 2 + SIDE / 2]->emitted = 1 << 30;
}

int main(void) {
    for (size_t i = 0; i < THREADS; i++)
        pthread_mutex_init(&queues[i].mutex, NULL);
    build_room();
    run_team(body);
    unsigned long done = 0;
    for (size_t i = 0; i < THREADS; i++)
        done += queues[i].done;
    /* Every pair of roots, four tasks for each division of a receiver, and every patch once in each round. */
    check(unfinished == 0, "tasks are left");
    check(interactions_made > 0 && done > (unsigned long)(ROUNDS * SCALE) * patches_made, "tasks were lost");
    uint64_t sum = interactions_made * 31 + patches_made + done * 7;
    for (size_t i = 0; i < ROOTS; i++)
        sum = sum * 1099511628211u + roots[i]->radiosity + roots[i]->gathered;
    finish(sum);
}
