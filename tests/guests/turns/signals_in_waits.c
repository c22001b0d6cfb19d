// As its namesake, recorded at scope inputs.
//# expect: pass
#include "../coverage/signals_in_waits.c"
