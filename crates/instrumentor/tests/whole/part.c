// The other half.
int shared, size;
extern int table[100];

__attribute__((noinline)) int add(int n) {
    // Two events.
    shared += n;
    return shared;
}

__attribute__((noinline)) void fill(int count) {
    size = 100;
    for (int i = 0; i < size; i++)
        table[i] = i * count;
}

__attribute__((noinline)) int sum(int k) {
    int sum = 0;
    for (int i = 0; i < size; i++)
        sum += table[i] ^ k;
    return sum;
}
