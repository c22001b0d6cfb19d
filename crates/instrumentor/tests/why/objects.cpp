// C++: what is written in the library counts as standing where it is used.
//# flags: -O1 -fno-exceptions
#include <cstdlib>
#include <memory>
#include <vector>

struct Shape {
    virtual long area() const;
    long side;
};
long keep(const Shape *);

long areas(const Shape *s) {
    return s->area(); // why: 8-byte load of Shape.vptr in areas: observed: argument `s` of `areas` | 8-byte load in areas: not observed (virtual-table): an entry of a virtual table, which is constant
}

void element(std::vector<long> &v, unsigned long i) {
    v[i]++; // why: operator[], /usr/include/c++ | observed: may be shared: points to memory from argument `v` of `element` | 8-byte store in element: observed: may be shared: the pointer was loaded from memory | 8-byte load in element: observed: may be shared: the pointer was loaded from memory
}

long on_the_stack(long k) {
    Shape own;
    own.side = k;          // why: 8-byte store of Shape.side in on_the_stack: observed: may be shared: stack object `own` escapes: its address is given to `keep`
    return keep(&own);
}

static inline __attribute__((always_inline)) void inner(long *p) {
    *p = 7; // why: 8-byte store in inner, inlined into outer: observed: argument `p` of `outer`
}
void outer(long *p) { inner(p); }
