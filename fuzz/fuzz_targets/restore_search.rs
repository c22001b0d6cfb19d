//! Any bytes as a saved search: refused, or written again to the same bytes; and it goes on without a panic, whatever replays answer.
//!
//! Magic, version and the hash of the log come first in the file; here they are put in front, so that the fuzzer need not find them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use run_model::ThreadIndex;
use schedule_search::Ask;
use schedule_search::Attempt;
use schedule_search::Ending;
use schedule_search::EventKind;
use schedule_search::EventLog;
use schedule_search::Go;
use schedule_search::Label;
use schedule_search::LoggedEvent;
use schedule_search::Replays;
use schedule_search::Search;
use schedule_search::Tuning;

/// Nothing helps.
struct Failing;

impl Replays for Failing {
    fn attempt(&mut self, _: &Ask) -> Attempt {
        Attempt {
            ending: Ending::Deadlock { thread: ThreadIndex(1), label: Label(2) },
            met: 2,
            points: Vec::new(),
            accesses: Vec::new(),
            followed: Vec::new(),
            stands: Vec::new(),
        }
    }
}

fn log() -> EventLog {
    let event = |thread, index, kind| LoggedEvent { thread: ThreadIndex(thread), index, label: Label(1), kind };
    let spawn = EventKind::Spawn { child: ThreadIndex(1) };
    let events = vec![
        event(0, 0, spawn),
        event(1, 0, EventKind::Call),
        event(0, 1, EventKind::Call),
        event(1, 1, EventKind::End),
    ];
    EventLog::new(events).expect("numbered in order")
}

fuzz_target!(|rest: &[u8]| {
    let fresh = Search::new(log(), Tuning::default()).save();
    // Eight bytes of magic, one of version, and a number of at most ten bytes that ends with the first small one.
    let hash = fresh[9..].iter().position(|byte| byte & 0x80 == 0).expect("a number ends");
    let file = [&fresh[..9 + hash + 1], rest].concat();
    if let Ok(mut search) = Search::restore(&file, log()) {
        assert_eq!(search.save(), file);
        let mut left = 20;
        search.run(&mut Failing, 3, |_| {
            left -= 1;
            if left == 0 { Go::Stop } else { Go::On }
        });
    }
});
