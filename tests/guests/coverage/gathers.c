// AVX2's gathers of memory that other threads write meanwhile: with indices of 32 and of 64 bits, with a mask and without, with more indices than results.
//# threads: 4
//# flags: -O2 -mavx2
//# needs: avx2
//# expect: pass
#include "../guest.h"
#include <immintrin.h>

enum { THREADS = 4, PLACES = 64, ROUNDS = 20000 };

static int words[PLACES];
static double numbers[PLACES];
static long longs[PLACES];

static NOINLINE uint64_t look(uint64_t hash, int first, int step) {
    __m128i few = _mm_setr_epi32(first, first + step, first + 2 * step, first + 3 * step);
    __m256i many = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
    __m256i wide = _mm256_setr_epi64x(first, first + step, first + 1, first + 2);
    __m256i eight = _mm256_i32gather_epi32(words, many, 4);
    __m128i four = _mm256_i64gather_epi32(words, wide, 4);
    __m128i two = _mm_i64gather_epi32(words, _mm256_castsi256_si128(wide), 4);
    __m256i mask = _mm256_setr_epi64x(-1, 0, 1, INT64_MIN);
    __m256i masked = _mm256_mask_i32gather_epi64(wide, (const long long *)longs, few, mask, 8);
    __m256d pairs = _mm256_i32gather_pd(numbers, few, 8);
    hash = mix_bytes(hash, &eight, sizeof eight);
    hash = mix_bytes(hash, &four, sizeof four);
    hash = mix_bytes(hash, &two, sizeof two);
    hash = mix_bytes(hash, &masked, sizeof masked);
    return mix_bytes(hash, &pairs, sizeof pairs);
}

static void *body(void *argument) {
    uint64_t me = (uintptr_t)argument, hash = me, random = me + 1;
    start_together(THREADS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned place = next_random(&random) % PLACES;
        words[place] += (int)hash;
        longs[place] = (long)hash;
        numbers[place] = (double)(hash >> 40);
        hash = look(hash, (int)(place % 16), 1 + (int)(random % 8));
    }
    return (void *)hash;
}

/* What is gathered is right, too. */
static void check(void) {
    for (int i = 0; i < PLACES; i++) {
        words[i] = i * 3;
        longs[i] = i * 5;
    }
    __m128i two = _mm_i64gather_epi32(words, _mm_set_epi64x(7, 1), 4);
    REQUIRE(_mm_extract_epi32(two, 0) == 3 && _mm_extract_epi32(two, 1) == 21 && _mm_extract_epi64(two, 1) == 0);
    __m128i masked = _mm_mask_i32gather_epi64(_mm_set1_epi64x(9), (const long long *)(longs + 4), _mm_set1_epi32(-2), _mm_set_epi64x(-1, 1), 8);
    REQUIRE(_mm_extract_epi64(masked, 0) == 9 && _mm_extract_epi64(masked, 1) == 10);
}

int main(void) {
    check();
    pthread_t threads[THREADS];
    uint64_t hash = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, body, (void *)i);
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        hash = mix(hash, (uint64_t)result);
    }
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
