// Two threads take a turn each, and one of the turns gets lost. Before, what a call brings in goes to a stack, where a replay that sees accesses
// has it elsewhere: other versions of functions run then.
//# threads: 2
//# fails: exit 1
//# chaos: 400
#include "../guest.h"
#include <unistd.h>

static volatile int turn, spoke;
static pthread_barrier_t all_here;

static void *body(void *argument) {
    char line[64] = "";
    int channel[2];
    REQUIRE(pipe(channel) == 0 && write(channel[1], "a line", 7) == 7 && read(channel[0], line, sizeof line) == 7);
    pthread_barrier_wait(&all_here);
    int mine = turn;
    for (volatile int i = 0; i < 100000; i++)
        ;
    turn = mine + 1; /* The bug: another thread may have come here meanwhile. */
    spoke += strcmp(line, "a line") == 0;
    return argument;
}

int main(void) {
    pthread_barrier_init(&all_here, NULL, 2);
    run_threads(2, body);
    printf("%d turns\n", turn);
    return turn != 2;
}
