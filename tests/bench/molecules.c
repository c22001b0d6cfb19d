// Every molecule with every other, as in Splash's water-nsquared: forces are added up by each thread alone, and then under a lock for each molecule.
//# kind: mixed
//# flags: -O2
//# link: -lm
#include "bench.h"
#include <math.h>

enum { MOLECULES = 1200, STEPS = 80 };

static const double BOX = 12, REACH = 4;

/* Forces in whole parts, so that their sum does not depend on the order. */
static const double PARTS = 1 << 30;

struct molecule {
    pthread_mutex_t mutex;
    double position[3], velocity[3];
    int64_t force[3];
};

static struct molecule *molecules[MOLECULES];
static pthread_mutex_t energy_mutex = PTHREAD_MUTEX_INITIALIZER;
static int64_t potential;

static void check(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "molecules: %s\n", what);
        abort();
    }
}

/* The nearest image of the other one, in a box that repeats itself. */
static double apart(double a, double b) {
    double way = a - b;
    return way > BOX / 2 ? way - BOX : way < -BOX / 2 ? way + BOX : way;
}

static int64_t pair(const struct molecule *a, const struct molecule *b, int64_t *on_a, int64_t *on_b) {
    double way[3], square = 0.3;
    for (int k = 0; k < 3; k++) {
        way[k] = apart(a->position[k], b->position[k]);
        square += way[k] * way[k];
    }
    if (square > REACH * REACH)
        return 0;
    double sixth = 1 / (square * square * square), pull = 0.02 * sixth * (2 * sixth - 1) / square;
    for (int k = 0; k < 3; k++) {
        int64_t force = (int64_t)(pull * way[k] * PARTS);
        on_a[k] += force;
        on_b[k] -= force;
    }
    return (int64_t)(sixth * (sixth - 1) * PARTS / 64);
}

static void *body(void *argument) {
    size_t me = (uintptr_t)argument, first = share(me, MOLECULES), last = share(me + 1, MOLECULES);
    int64_t(*mine)[3] = malloc(sizeof *mine * MOLECULES);
    for (int step = 0; step < STEPS * SCALE; step++) {
        int64_t energy = 0;
        memset(mine, 0, sizeof *mine * MOLECULES);
        /* Each one with the half of the others that comes behind it. */
        for (size_t i = first; i < last; i++)
            for (size_t d = 1; d <= MOLECULES / 2; d++) {
                size_t k = (i + d) % MOLECULES;
                if (d < MOLECULES / 2 || i < k)
                    energy += pair(molecules[i], molecules[k], mine[i], mine[k]);
            }
        pthread_mutex_lock(&energy_mutex);
        potential += energy;
        pthread_mutex_unlock(&energy_mutex);
        for (size_t i = 0; i < MOLECULES; i++) {
            struct molecule *molecule = molecules[(first + i) % MOLECULES];
            int64_t *force = mine[(first + i) % MOLECULES];
            if (!force[0] && !force[1] && !force[2])
                continue;
            pthread_mutex_lock(&molecule->mutex);
            for (int k = 0; k < 3; k++)
                molecule->force[k] += force[k];
            pthread_mutex_unlock(&molecule->mutex);
        }
        meet();
        for (size_t i = first; i < last; i++)
            for (int k = 0; k < 3; k++) {
                struct molecule *molecule = molecules[i];
                molecule->velocity[k] += 0.002 * (molecule->force[k] / PARTS);
                molecule->position[k] = fmod(molecule->position[k] + 0.002 * molecule->velocity[k] + BOX, BOX);
                molecule->force[k] = 0;
            }
        meet();
    }
    free(mine);
    return NULL;
}

int main(void) {
    uint64_t random = 1;
    for (size_t i = 0; i < MOLECULES; i++) {
        molecules[i] = calloc(1, sizeof *molecules[i]);
        pthread_mutex_init(&molecules[i]->mutex, NULL);
        for (int k = 0; k < 3; k++)
            molecules[i]->position[k] = BOX * next_double(&random);
    }
    run_team(body);
    double momentum = 0;
    uint64_t sum = (uint64_t)potential;
    for (size_t i = 0; i < MOLECULES; i++) {
        for (int k = 0; k < 3; k++)
            momentum += molecules[i]->velocity[k];
        sum = sum * 31 + checksum_bytes(molecules[i]->position, sizeof molecules[i]->position);
    }
    check(fabs(momentum) < 1e-6, "momentum is not kept");
    finish(sum);
}
