// Lazy: three threads add to a number under a lock, each in its own order of arrival; the third complains if the
// others came first. Fails often.
//# threads: 3
//# fails: assert
//# chaos: 400
#include "../guest.h"
#include <assert.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int data;

static void *body(void *argument) {
    pthread_mutex_lock(&mutex);
    if ((uintptr_t)argument < 2)
        data += 1 + (int)(uintptr_t)argument;
    else
        assert(data < 3 && "both others were faster");
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* Not started together: the order of creation is the likely order of arrival, and the one that fails. */
int main(void) {
    pthread_t threads[3];
    for (uintptr_t i = 0; i < COUNT(threads); i++)
        REQUIRE(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
}
