void ring_push(unsigned);
unsigned ring_sum(void);
unsigned census(unsigned);
