// Which static variables are written only before there is another thread? The names say it. Everything else must stay observed.
//# counts: vary
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int yes_size, yes_table[64], yes_copied[64], yes_by_helper, yes_in_constructor, yes_kept[4] = {1, 2, 3, 4}, *yes_pointer;
static int no_after, no_sometimes, no_escaped, no_after_callback, no_by_callback, no_through_pointer, no_door, no_after_return, no_atomic;
static int no_in_thread, no_by_handler, no_behind_assembly, no_called_twice, no_published, no_at_exit;
int no_visible;
int *where;
static jmp_buf back;

static __attribute__((noinline)) void helper(int n) { yes_by_helper = n + yes_size; }
static __attribute__((noinline)) void twice(int n) { no_called_twice += n; }
static __attribute__((constructor)) void construct(void) { yes_in_constructor = getenv("HOME") ? 7 : 8; }
static int compare(const void *a, const void *b) { no_by_callback++; return *(const int *)a - *(const int *)b; }
static void write_it(int *place) { *place = 5; }
// Others may know these functions before main, and call them from threads of their own.
int visible(void) { return no_door; }
#ifdef HOOK
int (*hook)(void);
int through_hook(void) { return hook(); }
#endif
static int called_by_visible(void) { return no_published; }
int caller(void) { return called_by_visible(); }
static void at_exit(void *unused) { (void)unused; if (no_at_exit > 1000) abort(); }
extern int __cxa_atexit(void (*)(void *), void *, void *);

static void *worker(void *argument) {
    long sum = yes_size + yes_by_helper + yes_in_constructor + *yes_pointer + no_after + no_sometimes + no_after_callback + no_by_callback;
    for (int i = 0; i < yes_size; i++)
        sum += yes_table[i] + yes_copied[i] + yes_kept[i & 3];
    sum += no_through_pointer + no_after_return + no_in_thread + no_by_handler + no_behind_assembly + no_called_twice + no_escaped + no_visible;
    no_in_thread = 1;
    *(long *)argument = sum + __atomic_load_n(&no_atomic, __ATOMIC_RELAXED) + visible() + caller();
    return argument;
}

int main(int count, char **arguments) {
    (void)arguments;
    yes_size = 32 + count;
    for (int i = 0; i < 64; i++)
        yes_table[i] = i * count;
    memcpy(yes_copied, yes_table, sizeof yes_copied);
    yes_kept[count & 3] = count;
    helper(count);
    twice(count);
    yes_pointer = malloc(sizeof *yes_pointer * count);
    *yes_pointer = count;
    no_door = no_published = no_visible = no_at_exit = no_in_thread = count;
    __cxa_atexit(at_exit, 0, 0);
    __atomic_store_n(&no_atomic, 1, __ATOMIC_RELAXED);
    // From here on others may know where it is, and threads that were there before main may run code of ours.
    where = &no_escaped;
    if (count > 100)
        setjmp(back);
    else if (count > 50)
        no_sometimes = 2;
    no_after_return = count;
    __asm__ volatile("" ::: "memory");
    no_behind_assembly = count;
    int items[4] = {4, 2, 3, 1};
    qsort(items, 4, sizeof *items, compare);
    no_after_callback = items[0];
    void (*volatile through)(int *) = write_it;
    through(&no_through_pointer);
    long results[2];
    pthread_t threads[2];
    for (int k = 0; k < 2; k++)
        pthread_create(&threads[k], 0, worker, &results[k]);
    no_after = no_sometimes = 1;
    no_by_handler = 1;
    twice(1);
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], 0);
    printf("%d\n", results[0] > 0);
    return 0;
}
