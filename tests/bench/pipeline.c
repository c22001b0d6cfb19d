// Pipeline: THREADS stages joined by bounded queues with condition variables; each stage works on whole packets.
//# kind: locks
//# flags: -O2
#include "bench.h"

enum { ROOM = 32, PACKETS = 60000, WORDS = 512, STAGES = THREADS < 2 ? 2 : THREADS };

struct packet { uint64_t words[WORDS]; };

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    struct packet *items[ROOM];
    unsigned head, tail;
};

static struct queue queues[STAGES - 1];
static uint64_t checksum;

static void put(struct queue *queue, struct packet *packet) {
    pthread_mutex_lock(&queue->mutex);
    while (queue->tail - queue->head == ROOM)
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    queue->items[queue->tail++ % ROOM] = packet;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

static struct packet *get(struct queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    while (queue->tail == queue->head)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    struct packet *packet = queue->items[queue->head++ % ROOM];
    pthread_cond_signal(&queue->not_full);
    pthread_mutex_unlock(&queue->mutex);
    return packet;
}

static void transform(struct packet *packet, uint64_t stage) {
    uint64_t carry = stage + 1;
    for (int round = 0; round < 10; round++)
        for (size_t i = 0; i < WORDS; i++) {
            carry = (carry ^ packet->words[i]) * 0x9e3779b97f4a7c15u;
            packet->words[i] = carry ^ carry >> 29;
        }
}

static void *stage(void *argument) {
    size_t me = (uintptr_t)argument;
    for (uint64_t i = 0; i < PACKETS * SCALE; i++) {
        struct packet *packet = me == 0 ? malloc(sizeof *packet) : get(&queues[me - 1]);
        if (me == 0)
            for (size_t k = 0; k < WORDS; k++)
                packet->words[k] = i * k;
        transform(packet, me);
        if (me + 1 < STAGES) {
            put(&queues[me], packet);
        } else {
            checksum = checksum * 31 + packet->words[WORDS - 1];
            free(packet);
        }
    }
    return NULL;
}

int main(void) {
    for (size_t i = 0; i < STAGES - 1; i++) {
        pthread_mutex_init(&queues[i].mutex, NULL);
        pthread_cond_init(&queues[i].not_empty, NULL);
        pthread_cond_init(&queues[i].not_full, NULL);
    }
    pthread_t threads[STAGES];
    for (size_t i = 0; i < STAGES; i++)
        if (pthread_create(&threads[i], NULL, stage, (void *)(uintptr_t)i) != 0)
            abort();
    for (size_t i = 0; i < STAGES; i++)
        pthread_join(threads[i], NULL);
    finish(checksum);
}
