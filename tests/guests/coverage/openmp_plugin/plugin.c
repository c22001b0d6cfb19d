int plugin_sum(int count) {
    int sum = 0, inside = 0;
#pragma omp parallel for num_threads(1) schedule(dynamic) reduction(+ : sum)
    for (int i = 0; i < count; i++) {
        sum += i;
#pragma omp critical
        inside += i;
    }
    return sum + inside;
}
