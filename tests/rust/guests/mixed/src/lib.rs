//! A package with everything a package can have: a build script, a procedural macro, a feature, C code, an example.
use std::thread;

mod generated {
    include!(concat!(env!("OUT_DIR"), "/rounds.rs"));
}

unsafe extern "C" {
    safe fn take_ticket() -> u32;
}

/// How many tickets were given out twice.
pub fn duplicates() -> usize {
    let mut tickets: Vec<u32> = thread::scope(|scope| {
        let takers: Vec<_> = (0..macros::threads!())
            .map(|_| scope.spawn(|| (0..generated::ROUNDS).map(|_| take_ticket()).collect::<Vec<u32>>()))
            .collect();
        takers.into_iter().flat_map(|taker| taker.join().expect("takers do not panic")).collect()
    });
    tickets.sort_unstable();
    tickets.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

/// With the feature `loud`, louder.
pub fn report() -> String {
    let text = format!("{} tickets were given out twice", duplicates());
    if cfg!(feature = "loud") { text.to_uppercase() } else { text }
}
