// Pictures of a volume by casting rays: an octree on the heap tells what is empty, tiles of the picture are taken from a queue for each thread or stolen.
//# kind: mixed
//# flags: -O2
//# link: -lm
#include "bench.h"
#include <math.h>

enum { LARGE = 64, LEAF = 4, WIDTH = 160, TILE = 8, TILES = (WIDTH / TILE) * (WIDTH / TILE), FRAMES = 18 };

#define STRIDE 0.5f
#define OPAQUE 0.98f

struct node { int from[3], size; uint8_t densest; struct node *children[8]; };

static struct tiles {
    pthread_mutex_t mutex;
    int next, end;
} queues[THREADS];

static uint8_t *volume;
static struct node *tree;
static struct node *parts[8];
static float *picture;
static unsigned long tiles_done[THREADS];
static uint64_t checksum;

static void check(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "volume: %s\n", what);
        abort();
    }
}

static uint8_t *voxel(int x, int y, int z) { return &volume[((size_t)z * LARGE + y) * LARGE + x]; }

/* A hollow ball with another one in it. */
static void fill(int z) {
    for (int y = 0; y < LARGE; y++)
        for (int x = 0; x < LARGE; x++) {
            float dx = x - LARGE / 2.0f, dy = y - LARGE / 2.0f, dz = z - LARGE / 2.0f;
            float r = sqrtf(dx * dx + dy * dy + dz * dz) / (LARGE / 2.0f);
            int is_wall = r > 0.78f && r < 0.86f && dx + dy < 8, is_core = r < 0.3f;
            *voxel(x, y, z) = is_wall ? 30 + (x * 7 + z * 3) % 20 : is_core ? 120 + (y * 5) % 60 : 0;
        }
}

static struct node *build(int x, int y, int z, int size) {
    struct node *node = calloc(1, sizeof *node);
    *node = (struct node){{x, y, z}, size, 0, {NULL}};
    if (size == LEAF) {
        /* One voxel more: samples are interpolated between neighbours. */
        for (int k = z; k <= z + size && k < LARGE; k++)
            for (int j = y; j <= y + size && j < LARGE; j++)
                for (int i = x; i <= x + size && i < LARGE; i++)
                    if (*voxel(i, j, k) > node->densest)
                        node->densest = *voxel(i, j, k);
        return node;
    }
    int half = size / 2;
    for (int i = 0; i < 8; i++) {
        struct node *child = build(x + (i & 1) * half, y + (i >> 1 & 1) * half, z + (i >> 2) * half, half);
        node->children[i] = child;
        if (child->densest > node->densest)
            node->densest = child->densest;
    }
    /* What is empty needs no children. */
    for (int i = 0; i < 8 && !node->densest; i++) {
        free(node->children[i]);
        node->children[i] = NULL;
    }
    return node;
}

/* The smallest node around a place, or the largest empty one. */
static const struct node *around(const float *at) {
    const struct node *node = tree;
    while (node->densest && node->children[0]) {
        int half = node->size / 2, octant = 0;
        for (int k = 0; k < 3; k++)
            octant |= ((int)at[k] >= node->from[k] + half) << k;
        node = node->children[octant];
    }
    return node;
}

static float sample(const float *at) {
    int x = (int)at[0], y = (int)at[1], z = (int)at[2];
    float fx = at[0] - x, fy = at[1] - y, fz = at[2] - z, sum = 0;
    for (int i = 0; i < 8; i++) {
        float weight = (i & 1 ? fx : 1 - fx) * (i & 2 ? fy : 1 - fy) * (i & 4 ? fz : 1 - fz);
        sum += weight * *voxel(x + (i & 1), y + (i >> 1 & 1), z + (i >> 2));
    }
    return sum;
}

static int is_inside(const float *at) {
    for (int k = 0; k < 3; k++)
        if (!(at[k] >= 0 && at[k] < LARGE - 1))
            return 0;
    return 1;
}

static float cast(int column, int row, int frame, int skips) {
    float angle = 0.3f + 0.25f * frame, s = sinf(angle), c = cosf(angle), middle = LARGE / 2.0f;
    float u = (column + 0.5f) / WIDTH * LARGE - middle, v = (row + 0.5f) / WIDTH * LARGE - middle;
    float way[3] = {s, 0, c}, start[3] = {middle + u * c - s * LARGE, middle + v, middle - u * s - c * LARGE};
    float light = 0, seen = 0;
    int steps = (int)(2 * LARGE / STRIDE);
    for (int step = 0; step < steps && seen < OPAQUE;) {
        float at[3];
        for (int k = 0; k < 3; k++)
            at[k] = start[k] + way[k] * STRIDE * step;
        if (!is_inside(at)) {
            step++;
            continue;
        }
        const struct node *node = skips ? around(at) : NULL;
        if (node && !node->densest) {
            /* On, to where the ray leaves it. */
            float leaves = 1e9f;
            for (int k = 0; k < 3; k++)
                if (fabsf(way[k]) > 1e-6f)
                    leaves = fminf(leaves, (node->from[k] + (way[k] > 0 ? node->size : 0) - at[k]) / way[k]);
            int skipped = (int)(leaves / STRIDE);
            step += skipped > 1 ? skipped : 1;
            continue;
        }
        float density = sample(at) / 255;
        float alpha = density * density * 0.9f;
        light += (1 - seen) * alpha * (0.3f + density);
        seen += (1 - seen) * alpha;
        step++;
    }
    return light;
}

static int take(size_t me) {
    for (size_t i = 0; i < THREADS; i++) {
        struct tiles *queue = &queues[(me + i) % THREADS];
        pthread_mutex_lock(&queue->mutex);
        int tile = queue->next < queue->end ? queue->next++ : -1;
        pthread_mutex_unlock(&queue->mutex);
        if (tile >= 0)
            return tile;
    }
    return -1;
}

static void render(int tile, int frame) {
    int left = tile % (WIDTH / TILE) * TILE, top = tile / (WIDTH / TILE) * TILE;
    for (int row = top; row < top + TILE; row++)
        for (int column = left; column < left + TILE; column++)
            picture[row * WIDTH + column] = cast(column, row, frame, 1);
}

static void *body(void *argument) {
    size_t me = (uintptr_t)argument;
    for (size_t z = share(me, LARGE); z < share(me + 1, LARGE); z++)
        fill((int)z);
    meet();
    for (size_t i = me; i < 8; i += THREADS) {
        int half = LARGE / 2;
        parts[i] = build((i & 1) * half, (i >> 1 & 1) * half, (i >> 2) * half, half);
    }
    meet();
    if (me == 0) {
        tree = calloc(1, sizeof *tree);
        *tree = (struct node){{0, 0, 0}, LARGE, 1, {NULL}};
        memcpy(tree->children, parts, sizeof parts);
    }
    for (int frame = 0; frame < FRAMES * SCALE; frame++) {
        pthread_mutex_lock(&queues[me].mutex);
        queues[me].next = (int)share(me, TILES);
        queues[me].end = (int)share(me + 1, TILES);
        pthread_mutex_unlock(&queues[me].mutex);
        meet();
        for (int tile; (tile = take(me)) >= 0;) {
            render(tile, frame);
            tiles_done[me]++;
        }
        meet();
        if (me == 0) {
            checksum = checksum * 31 + checksum_bytes(picture, sizeof *picture * WIDTH * WIDTH);
            /* Some pixels again, without the tree: only what is empty may be skipped. */
            for (int i = 0; i < WIDTH * WIDTH; i += 997)
                check(picture[i] == cast(i % WIDTH, i / WIDTH, frame, 0), "a pixel is wrong");
        }
    }
    return NULL;
}

int main(void) {
    volume = malloc((size_t)LARGE * LARGE * LARGE);
    picture = calloc(WIDTH * WIDTH, sizeof *picture);
    for (size_t i = 0; i < THREADS; i++)
        pthread_mutex_init(&queues[i].mutex, NULL);
    run_team(body);
    unsigned long done = 0;
    for (size_t i = 0; i < THREADS; i++)
        done += tiles_done[i];
    check(done == (unsigned long)TILES * (FRAMES * SCALE), "tiles were lost");
    finish(checksum);
}
