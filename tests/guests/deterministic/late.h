/* Included before figure3.c: its `atoi` comes from a library, late.c, which was built without refrain. */
#include <stdlib.h>

int late_atoi(const char *text);
#define atoi late_atoi
