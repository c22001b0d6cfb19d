// Series (Java Grande): Fourier coefficients of (x+1)^x on [0,2] by the trapezium rule; nearly no shared data.
//# kind: compute
//# flags: -O2
//# link: -lm
#include "bench.h"
#include <math.h>

enum { COEFFICIENTS = 200, STEPS = 120 };

static double cosines[COEFFICIENTS * SCALE], sines[COEFFICIENTS * SCALE];

static double integrate(double (*wave)(double), double omega) {
    double sum = 0, width = 2.0 / STEPS;
    for (int i = 0; i < STEPS; i++) {
        double x = width * (i + 0.5);
        sum += pow(x + 1.0, x) * wave(omega * x);
    }
    return sum * width;
}

static void *body(void *argument) {
    size_t me = (uintptr_t)argument, count = COEFFICIENTS * SCALE;
    for (int repeat = 0; repeat < 800; repeat++)
        for (size_t n = share(me, count); n < share(me + 1, count); n++) {
            cosines[n] += integrate(cos, 3.14159265358979 * (double)n);
            sines[n] += integrate(sin, 3.14159265358979 * (double)n);
        }
    return NULL;
}

int main(void) {
    run_team(body);
    double sum = 0;
    for (size_t i = 0; i < COEFFICIENTS * SCALE; i++)
        sum += cosines[i] * cosines[i] + sines[i] * sines[i];
    /* Rounded, because libm may differ in the last bits between machines. */
    finish((uint64_t)(sum * 1e3));
}
