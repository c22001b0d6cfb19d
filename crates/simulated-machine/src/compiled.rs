//! Compiled code: the steps it does by itself when a chunk word allows an access. The only part of recording that is a model here,
//! because a compiler pass emits it; the model is `runtime_abi::fast_path`, which a test of the instrumentor's compares with
//! what the pass emits.
use crate::memory::CHUNK_BYTES;
use crate::world::Surroundings;
use access_protocol::Mistake;
use access_protocol::Slot;
use access_protocol::Thread;
use access_protocol::World;
use machine::Word;
use runtime_abi::fast_path;
use runtime_abi::fast_path::Step;
use std::sync::atomic::Ordering::Relaxed;

/// What a thread has loaded for its check.
#[derive(Default)]
struct Loaded {
    count: u64,
    gate: u64,
    words: Vec<u64>,
    exclusive: u64,
    seen: u64,
}

/// Does an access as compiled code does: by itself, if it may. `None`: the runtime has to do it.
pub(crate) fn perform<R>(
    thread: &Thread<Surroundings>,
    address: u64,
    bytes: u64,
    writes: bool,
    mut access: impl FnMut() -> R,
) -> Option<R> {
    let steps = if writes { fast_path::WRITE } else { fast_path::READ };
    let mut loaded = Loaded::default();
    let mut result = None;
    for step in steps {
        match step {
            Step::Branch if !loaded.allows(writes) => {
                for step in fast_path::REFUSED {
                    if *step == Step::CloseWindow {
                        thread.slot.window().store(0, Relaxed);
                    }
                }
                return None;
            }
            Step::Branch => {
                if thread.world.makes(Mistake::WindowClosedEarly) {
                    thread.slot.window().store(0, Relaxed);
                }
            }
            Step::Access => result = Some(access()),
            Step::StoreCount => {
                thread.slot.count().store(loaded.count + 1, Relaxed);
                thread.world.completed(thread.slot, loaded.count + 1);
            }
            _ => load_or_store(thread, *step, address, bytes, &mut loaded),
        }
    }
    result
}

fn load_or_store(thread: &Thread<Surroundings>, step: Step, address: u64, bytes: u64, loaded: &mut Loaded) {
    let slot = thread.slot;
    match step {
        Step::OpenWindow => slot.window().store(1, Relaxed),
        Step::CloseWindow => slot.window().store(0, Relaxed),
        Step::LoadCount => loaded.count = slot.count().load(Relaxed),
        // Nobody sets a gate here, but where every access is to come to the runtime.
        Step::LoadGate => {
            loaded.gate = match thread.world.recorder().sees_every_access() {
                true => 0,
                false => u64::MAX,
            }
        }
        Step::LoadChunkWord => {
            let (first, last) = (address / CHUNK_BYTES, (address + bytes - 1) / CHUNK_BYTES);
            let word = |chunk: u64| thread.world.chunk_word(chunk * CHUNK_BYTES).load(Relaxed);
            loaded.words = (first..=last).map(word).collect();
        }
        Step::LoadExclusive => loaded.exclusive = slot.exclusive().load(Relaxed),
        Step::LoadSeen => loaded.seen = slot.seen().load(Relaxed),
        Step::Branch | Step::Access | Step::StoreCount | Step::Call => {}
    }
}

impl Loaded {
    fn allows(&self, writes: bool) -> bool {
        let is_allowed = |word: &u64| *word == self.exclusive || (!writes && word.wrapping_sub(1) < self.seen);
        self.count < self.gate && self.words.iter().all(is_allowed)
    }
}
