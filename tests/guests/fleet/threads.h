/* Shared by the fleet's guests: threads whose handles are nobody's shared element, and pauses that hide the bug most of the time. */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Read behind the back of whoever counts accesses: in the paper's programs threads, and what becomes of them, are no elements. */
static inline long word_at(const void *place) {
    long word;
    __asm__ volatile("mov %1, %0" : "=r"(word) : "m"(*(const long *)place));
    return word;
}

static inline void start(pthread_t *place, void *(*body)(void *), long argument) {
    if (pthread_create(place, NULL, body, (void *)argument) != 0)
        abort();
}

/* What the thread returned. */
static inline long finish(const pthread_t *place) {
    void *result;
    pthread_join((pthread_t)word_at(place), &result);
    return word_at(&result);
}

#endif
