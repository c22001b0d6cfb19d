// libc's memory and string functions on shared and on private buffers.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
char shared[512], other[512]; char *words[] = {"alpha", "beta", "gamma", "delta"};
size_t (*measure)(const char *) = strlen;
int n = 5; struct { char text[24]; } wide = {"a structure"}, copy_of_wide;
int main(int argc, char **argv) {
    char mine[64];
    memset(shared, 'x', n * 10); memset(mine, 'y', n); mine[n] = 0; memset(other, 0, sizeof other);
    memcpy(other + 3, shared, n * 7); memmove(other, other + 2, n * 8); memcpy(mine, shared, n);
    for (int k = 0; k < 4; k++) { strcat(strcpy(other + 20 * k, words[k]), "-"); strncat(other, words[k], n % 3); }
    char *copy = strdup(other), *part = strndup(shared, n);
    printf("%zu %zu %d %d %d %s %s %s\n", strlen(other), strnlen(shared, 7), strcmp(copy, other) != 0, memcmp(shared, other, n) > 0,
           strncmp(words[n % 4], "beta", 2), strchr(other, '-'), strrchr(copy, 'a'), strstr(other, "ga") ? "yes" : "no");
    printf("%d %d %s %s %zu %c\n", strcasecmp(copy, "ALPHA") > 0, strncasecmp(other, "AL", 2), part, mine, measure(copy), *(char *)memchr(other, 'p', 20));
    bzero(shared, n); char *end = stpcpy(shared, copy); end = mempcpy(end, "tail", 5);
    printf("%s %ld %d\n", shared, (long)(end - shared), bcmp(shared, copy, n));
    copy_of_wide = wide; printf("%s\n", copy_of_wide.text);
    strncpy(mine, argv[0], 0); free(copy); free(part);
    return argc - 1;
}
