// A compressor with a reader, workers and a writer that keeps blocks in order, and the mistake of pbzip2 0.9.4: at the end, only the writer is waited for. A
// worker that has handed over its last block may not have counted it yet.
//# fails: exit 3
#include "../say.h"
#include <pthread.h>
#include <stdlib.h>

enum { BLOCKS = 40, BLOCK_BYTES = 4096, WORKERS = 2, ROOM = 4 };

struct block {
    int number, length;
    unsigned char bytes[2 * BLOCK_BYTES];
};
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct block *blocks[ROOM];
    int first, waiting, is_over;
};

static struct queue *queue;
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER, total_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_done = PTHREAD_COND_INITIALIZER;
static struct block *done[BLOCKS];
static int total;

static void *read_all(void *argument) {
    unsigned seed = 1;
    for (int number = 0; number < BLOCKS; number++) {
        struct block *block = malloc(sizeof *block);
        block->number = number;
        block->length = BLOCK_BYTES;
        for (int i = 0; i < BLOCK_BYTES; i++)
            block->bytes[i] = (unsigned char)((seed = seed * 1103515245 + 12345) >> 28);
        pthread_mutex_lock(&queue->lock);
        while (queue->waiting == ROOM)
            pthread_cond_wait(&queue->not_full, &queue->lock);
        queue->blocks[(queue->first + queue->waiting++) % ROOM] = block;
        pthread_cond_signal(&queue->not_empty);
        pthread_mutex_unlock(&queue->lock);
    }
    pthread_mutex_lock(&queue->lock);
    queue->is_over = 1;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_mutex_unlock(&queue->lock);
    say("read\n");
    return argument;
}

/* Runs of the same byte become the byte and how often it comes. */
static void compress(struct block *block) {
    unsigned char *packed = malloc(2 * BLOCK_BYTES);
    int length = 0;
    for (int i = 0; i < block->length;) {
        int from = i;
        while (i < block->length && i - from < 255 && block->bytes[i] == block->bytes[from])
            i++;
        packed[length++] = block->bytes[from];
        packed[length++] = (unsigned char)(i - from);
    }
    for (int i = 0; i < length; i++)
        block->bytes[i] = packed[i];
    block->length = length;
    free(packed);
}

static void *work(void *argument) {
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        while (!queue->waiting && !queue->is_over)
            pthread_cond_wait(&queue->not_empty, &queue->lock);
        if (!queue->waiting) {
            pthread_mutex_unlock(&queue->lock);
            return argument;
        }
        struct block *block = queue->blocks[queue->first];
        queue->first = (queue->first + 1) % ROOM;
        queue->waiting--;
        pthread_cond_signal(&queue->not_full);
        pthread_mutex_unlock(&queue->lock);
        compress(block);
        pthread_mutex_lock(&done_lock);
        done[block->number] = block;
        pthread_cond_signal(&is_done);
        pthread_mutex_unlock(&done_lock);
        compute(argument ? 400000 : 20000);
        pthread_mutex_lock(&total_lock);
        total++;
        pthread_mutex_unlock(&total_lock);
    }
}

static void *write_all(void *argument) {
    for (int number = 0; number < BLOCKS; number++) {
        pthread_mutex_lock(&done_lock);
        while (!done[number])
            pthread_cond_wait(&is_done, &done_lock);
        struct block *block = done[number];
        pthread_mutex_unlock(&done_lock);
        unsigned sum = 0;
        for (int i = 0; i < block->length; i++)
            sum = sum * 31 + block->bytes[i];
        say("block %d: %d bytes, %u\n", number, block->length, sum);
        free(block);
    }
    return argument;
}

int main(void) {
    pthread_t reader, workers[WORKERS], writer;
    queue = calloc(1, sizeof *queue);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->not_empty, NULL);
    pthread_cond_init(&queue->not_full, NULL);
    pthread_create(&writer, NULL, write_all, NULL);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, i ? queue : NULL);
    pthread_create(&reader, NULL, read_all, NULL);
    pthread_join(reader, NULL);
    pthread_join(writer, NULL);
    compute(50000);
    pthread_mutex_lock(&total_lock);
    int counted = total;
    pthread_mutex_unlock(&total_lock);
    say("%d of %d blocks\n", counted, BLOCKS);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    return counted == BLOCKS ? 0 : 3;
}
