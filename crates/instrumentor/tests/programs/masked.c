// Vector accesses with a mask and gathers, which touch only some lanes. Needs AVX2.
#include <immintrin.h>
#include <stdio.h>
#include <sys/mman.h>
int numbers[64], picked[16];
__attribute__((noinline)) void move(int *to, const int *from, __m256i mask) { _mm256_maskstore_epi32(to, mask, _mm256_maskload_epi32(from, mask)); }
__attribute__((noinline)) __m256i gather(const int *from, __m256i at) { return _mm256_i32gather_epi32(from, at, 4); }
int main(void) {
    for (int i = 0; i < 64; i++) numbers[i] = i * 3;
    __m256i mask = _mm256_setr_epi32(-1, 0, -1, -1, 0, 0, -1, 0);
    move(picked, numbers + 5, mask);
    // Lanes that are not selected lie in a page that is not there.
    char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    int *edge = (int *)(page + 4096) - 7;
    for (int i = 0; i < 7; i++) edge[i] = i + 100;
    move(picked + 8, edge, mask);
    int out[8];
    _mm256_storeu_si256((void *)out, gather(numbers, _mm256_setr_epi32(1, 3, 5, 7, 9, 60, 2, 0)));
    for (int i = 0; i < 16; i++) printf("%d ", picked[i]);
    for (int i = 0; i < 8; i++) printf("%d ", out[i]);
    puts("");
    return 0;
}
