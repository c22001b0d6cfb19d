/* Tickets without a lock: two callers may get the same one. Only a recorder that observes C as well brings that back. */
static volatile unsigned next_ticket;

unsigned take_ticket(void) {
    unsigned mine = __atomic_load_n(&next_ticket, __ATOMIC_RELAXED);
    __atomic_store_n(&next_ticket, mine + 1, __ATOMIC_RELAXED);
    return mine;
}
