// A heisenbug to catch: a small job server that works almost always.
//
// A dispatcher hands jobs to workers through a queue. When the queue runs empty, the last worker to finish closes the
// books and compares the number of finished jobs with the number of jobs handed out. They are the same in nearly every
// run.
//
// The mistake is in finish_job(): `finished` is updated by `finished = finished + 1` under the lock `report_lock`,
// while the emergency path for small jobs, added later by somebody else, does the same under `queue_lock`. Each update
// is "under a lock", so reviewers nodded; but they are different locks. When a small job ends while a large one is
// being counted, one of the two is forgotten, and much later the books do not balance.
//
// Under a debugger, with print statements, or on one core, the window of a few nanoseconds is practically never hit.
//# threads: 3
//# flags: -O2 -g
//# fails: assert
//# chaos: 1000
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 3, JOBS = 60 };

struct job {
    int number;
    int size;
};

static struct job queue[JOBS];
static int queue_head;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;

static long finished;
static long total_size;
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

/* The next job, or NULL when there is none left. */
static struct job *take_job(void) {
    struct job *job = NULL;
    pthread_mutex_lock(&queue_lock);
    if (queue_head < JOBS)
        job = &queue[queue_head++];
    pthread_mutex_unlock(&queue_lock);
    return job;
}

/* Stands for the work: pure computation, no shared data. */
static int work_on(const struct job *job) {
    unsigned x = (unsigned)job->number;
    for (int i = 0; i < job->size * 40; i++)
        x = x * 1664525u + 1013904223u;
    return (int)(x >> 31) + job->size;
}

static void finish_job(const struct job *job, int size) {
    if (job->size < 10) {
        /* "Small jobs are frequent, and we need queue_lock for the next one anyway." */
        pthread_mutex_lock(&queue_lock);
        finished = finished + 1;
        pthread_mutex_unlock(&queue_lock);
    } else {
        pthread_mutex_lock(&report_lock);
        finished = finished + 1;
        total_size += size;
        pthread_mutex_unlock(&report_lock);
    }
}

static void *worker(void *argument) {
    (void)argument;
    struct job *job;
    while ((job = take_job()) != NULL)
        finish_job(job, work_on(job));
    return NULL;
}

int main(void) {
    pthread_t workers[WORKERS];
    for (int i = 0; i < JOBS; i++)
        queue[i] = (struct job){.number = i, .size = 5 + i * 7 % 11};
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, worker, NULL) != 0)
            return 2;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);

    printf("%d jobs handed out, %ld finished\n", JOBS, finished);
    if (finished != JOBS) {
        fflush(stdout);
        fprintf(stderr, "the books do not balance: %ld job(s) lost\n", JOBS - finished);
        abort();
    }
    return 0;
}
