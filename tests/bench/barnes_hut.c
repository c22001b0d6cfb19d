// Bodies that attract each other, by an octree on the heap (Barnes and Hut): threads insert their bodies into one tree, cells have locks.
//# kind: mixed
//# flags: -O2
//# link: -lm
#include "bench.h"
#include <math.h>

enum { BODIES = 16000, STEPS = 10 };

static const double STEP = 0.01, SOFTENING = 0.05, OPENING = 0.8;

struct body { double mass, position[3], velocity[3], acceleration[3]; };

/* A leaf has one body, so that the tree does not depend on who inserted first. */
struct cell {
    pthread_mutex_t mutex;
    double middle[3], size;
    double mass, centre[3];
    struct body *body;
    struct cell *children[8];
    int is_leaf;
};

static struct body *bodies[BODIES];
static struct cell *root;
static double largest;
static pthread_mutex_t largest_mutex = PTHREAD_MUTEX_INITIALIZER;

static void check(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "barnes_hut: %s\n", what);
        abort();
    }
}

static struct cell *new_cell(const double *middle, double size) {
    struct cell *cell = calloc(1, sizeof *cell);
    pthread_mutex_init(&cell->mutex, NULL);
    memcpy(cell->middle, middle, sizeof cell->middle);
    cell->size = size;
    cell->is_leaf = 1;
    return cell;
}

static struct cell *child_for(struct cell *cell, const struct body *body) {
    int octant = 0;
    double middle[3];
    for (int k = 0; k < 3; k++) {
        int is_above = body->position[k] >= cell->middle[k];
        octant |= is_above << k;
        middle[k] = cell->middle[k] + (is_above ? 0.25 : -0.25) * cell->size;
    }
    if (!cell->children[octant])
        cell->children[octant] = new_cell(middle, cell->size / 2);
    return cell->children[octant];
}

static void insert(struct body *body) {
    struct cell *cell = root;
    for (;;) {
        pthread_mutex_lock(&cell->mutex);
        if (cell->is_leaf && !cell->body) {
            cell->body = body;
            pthread_mutex_unlock(&cell->mutex);
            return;
        }
        if (cell->is_leaf) {
            /* Nobody else knows the child yet. */
            child_for(cell, cell->body)->body = cell->body;
            cell->body = NULL;
            cell->is_leaf = 0;
        }
        struct cell *child = child_for(cell, body);
        pthread_mutex_unlock(&cell->mutex);
        cell = child;
    }
}

/* Mass and centre of mass, always in the same order. */
static void weigh(struct cell *cell) {
    double mass = 0, centre[3] = {0};
    if (cell->body) {
        mass = cell->body->mass;
        for (int k = 0; k < 3; k++)
            centre[k] = mass * cell->body->position[k];
    }
    for (int i = 0; i < 8; i++) {
        struct cell *child = cell->children[i];
        if (!child)
            continue;
        if (cell != root)
            weigh(child);
        mass += child->mass;
        for (int k = 0; k < 3; k++)
            centre[k] += child->mass * child->centre[k];
    }
    cell->mass = mass;
    for (int k = 0; k < 3; k++)
        cell->centre[k] = mass > 0 ? centre[k] / mass : 0;
}

static void attract(struct body *body, const struct cell *cell) {
    double way[3], distance = SOFTENING * SOFTENING;
    for (int k = 0; k < 3; k++) {
        way[k] = cell->centre[k] - body->position[k];
        distance += way[k] * way[k];
    }
    if (cell->is_leaf || cell->size * cell->size < OPENING * OPENING * distance) {
        if (cell->body == body || cell->mass == 0)
            return;
        double pull = cell->mass / (distance * sqrt(distance));
        for (int k = 0; k < 3; k++)
            body->acceleration[k] += way[k] * pull;
        return;
    }
    for (int i = 0; i < 8; i++)
        if (cell->children[i])
            attract(body, cell->children[i]);
}

static void forget(struct cell *cell) {
    for (int i = 0; i < 8; i++)
        if (cell->children[i])
            forget(cell->children[i]);
    pthread_mutex_destroy(&cell->mutex);
    free(cell);
}

static void *team(void *argument) {
    size_t me = (uintptr_t)argument, first = share(me, BODIES), last = share(me + 1, BODIES);
    for (int step = 0; step < STEPS * SCALE; step++) {
        double mine = 0;
        for (size_t i = first; i < last; i++)
            for (int k = 0; k < 3; k++)
                mine = fmax(mine, fabs(bodies[i]->position[k]));
        pthread_mutex_lock(&largest_mutex);
        largest = fmax(largest, mine);
        pthread_mutex_unlock(&largest_mutex);
        meet();
        if (me == 0) {
            double middle[3] = {0};
            root = new_cell(middle, 2 * largest + 1);
            largest = 0;
        }
        meet();
        for (size_t i = first; i < last; i++)
            insert(bodies[i]);
        meet();
        for (size_t i = me; i < 8; i += THREADS)
            if (root->children[i])
                weigh(root->children[i]);
        meet();
        if (me == 0)
            weigh(root);
        meet();
        for (size_t i = first; i < last; i++) {
            struct body *body = bodies[i];
            memset(body->acceleration, 0, sizeof body->acceleration);
            attract(body, root);
        }
        meet();
        for (size_t i = first; i < last; i++)
            for (int k = 0; k < 3; k++) {
                bodies[i]->velocity[k] += STEP * bodies[i]->acceleration[k];
                bodies[i]->position[k] += STEP * bodies[i]->velocity[k];
            }
        if (me == 0) {
            check(fabs(root->mass - 1) < 1e-9, "the tree has lost bodies");
            forget(root);
        }
    }
    return NULL;
}

int main(void) {
    uint64_t random = 1;
    for (size_t i = 0; i < BODIES; i++) {
        struct body *body = calloc(1, sizeof *body);
        body->mass = 1.0 / BODIES;
        /* Dense in the middle. */
        double radius = 0.05 + next_double(&random) * next_double(&random), square = 1;
        double way[3];
        for (int k = 0; k < 3; k++) {
            way[k] = 2 * next_double(&random) - 1;
            square += way[k] * way[k];
        }
        for (int k = 0; k < 3; k++)
            body->position[k] = 4 * radius * way[k] / sqrt(square);
        bodies[i] = body;
    }
    run_team(team);
    double momentum[3] = {0}, speed = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < BODIES; i++) {
        for (int k = 0; k < 3; k++) {
            momentum[k] += bodies[i]->mass * bodies[i]->velocity[k];
            speed += bodies[i]->mass * fabs(bodies[i]->velocity[k]);
        }
        sum = sum * 31 + checksum_bytes(bodies[i], sizeof *bodies[i]);
    }
    for (int k = 0; k < 3; k++)
        check(fabs(momentum[k]) < 0.05 * speed, "momentum is not kept");
    finish(sum);
}
