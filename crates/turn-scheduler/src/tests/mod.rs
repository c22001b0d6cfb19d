//! Tests of what is decided, and explorations of how threads hand the turn over and wait at gates.
mod brute_force;
mod decisions;
mod exploration;
mod futexes;
mod gates;
mod lease;
mod plain;
mod programs;
mod world;
