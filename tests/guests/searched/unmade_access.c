// As two_races, but the thread that dies is the one that speaks first. In a replay by the order of calls alone, it has copied its message
// before the other one looks, and the other one then copies nothing: the access that it has to wait for is in no trace.
//# fails: signal SEGV
#define STEPS_OF_ONE 10000000
#define STEPS_OF_OTHER 1000000
#include "two_races.c"
