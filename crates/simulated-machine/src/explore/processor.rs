//! Memory and store buffers, and what each operation does to them.
use crate::explore::words::Word32;
use machine::Machine;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Which operation a thread is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Load(u32),
    /// Word, value, and which bits of it.
    Store(u32, u64, u64),
    Update(u32, Update),
    Fence,
    /// A fence in another thread.
    FenceIn(usize),
    Spin,
    Wait {
        word: u32,
        value: u64,
    },
    /// Returns from a wait, when woken.
    Woken(u32),
    Wake(u32),
}

/// What a locked instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Swap(u64),
    CompareExchange(u64, u64),
    /// The sum, and the bits that count.
    Add(u64, u64),
    Or(u64),
    Min(u64),
    Max(u64),
}

impl Update {
    /// The new value, if there is one.
    fn apply(self, old: u64) -> Option<u64> {
        match self {
            Update::Swap(value) => Some(value),
            Update::CompareExchange(current, new) => (old == current).then_some(new),
            Update::Add(value, bits) => Some(old.wrapping_add(value) & bits),
            Update::Or(value) => Some(old | value),
            Update::Min(value) => Some(old.min(value)),
            Update::Max(value) => Some(old.max(value)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Buffered {
    word: u32,
    value: u64,
    mask: u64,
}

impl Buffered {
    fn over(self, below: u64) -> u64 {
        below & !self.mask | self.value & self.mask
    }
}

/// What a step has to do with those of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) reads: Option<Place>,
    pub(crate) writes: Option<Place>,
}

/// Something that steps of different agents may both touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Word(u32),
    /// Those who wait at a word.
    Queue(u32),
    /// The buffer of a thread: who puts something into it keeps a barrier from happening.
    Buffer(usize),
}

impl Footprint {
    pub(crate) fn conflicts(self, other: Footprint) -> bool {
        let meets = |a: Option<Place>, b: Option<Place>| a.is_some() && a == b;
        meets(self.writes, other.writes) || meets(self.writes, other.reads) || meets(self.reads, other.writes)
    }
}

#[derive(Default)]
pub(crate) struct Processor {
    memory: Vec<u64>,
    /// How often each word has changed.
    versions: Vec<u64>,
    buffers: Vec<VecDeque<Buffered>>,
    /// What each thread has looked at since it last looked in vain: word and version.
    watched: Vec<Vec<(u32, u64)>>,
    running: Option<usize>,
    ticks: u64,
    numbers: BTreeMap<usize, u32>,
}

impl Processor {
    fn forwarded(&self, thread: usize, word: u32) -> bool {
        self.buffers[thread].iter().any(|entry| entry.word == word)
    }

    fn load(&self, thread: usize, word: u32) -> u64 {
        let own = self.buffers[thread].iter().filter(|entry| entry.word == word);
        own.fold(self.memory[word as usize], |below, entry| entry.over(below))
    }

    fn set(&mut self, word: u32, value: u64) {
        if self.memory[word as usize] != value {
            self.versions[word as usize] += 1;
        }
        self.memory[word as usize] = value;
    }

    fn watch(&mut self, thread: usize, word: u32) {
        let version = self.versions[word as usize];
        self.watched[thread].push((word, version));
    }

    /// Can the operation happen now?
    pub(crate) fn is_enabled(&self, thread: usize, operation: Operation) -> bool {
        match operation {
            Operation::Load(_) | Operation::Store(..) => true,
            Operation::Update(..) | Operation::Fence | Operation::Wait { .. } | Operation::Wake(_) => {
                self.buffers[thread].is_empty()
            }
            Operation::FenceIn(other) => self.buffers[other].is_empty(),
            Operation::Spin => {
                let has_changed = |(word, version): &(u32, u64)| {
                    self.versions[*word as usize] != *version && !self.forwarded(thread, *word)
                };
                self.watched[thread].iter().any(has_changed)
            }
            Operation::Woken(_) => false,
        }
    }

    /// Must the thread's own buffer be empty for it?
    pub(crate) fn is_ordered(operation: Operation) -> bool {
        !matches!(
            operation,
            Operation::Load(_) | Operation::Store(..) | Operation::FenceIn(_) | Operation::Spin
        )
    }

    /// The words whose change lets the thread go on.
    pub(crate) fn watched(&self, thread: usize) -> impl Iterator<Item = Place> {
        self.watched[thread].iter().map(|(word, _)| Place::Word(*word))
    }

    pub(crate) fn footprint(&self, thread: usize, operation: Operation) -> Footprint {
        let mut footprint = Footprint::default();
        match operation {
            // Also if it comes from the thread's own buffer: it could have come later, when another's store was above it.
            Operation::Load(word) => footprint.reads = Some(Place::Word(word)),
            Operation::Store(..) => footprint.writes = Some(Place::Buffer(thread)),
            Operation::Update(word, update) => match update.apply(self.memory[word as usize]) {
                Some(_) => footprint.writes = Some(Place::Word(word)),
                None => footprint.reads = Some(Place::Word(word)),
            },
            Operation::FenceIn(other) => footprint.reads = Some(Place::Buffer(other)),
            Operation::Wait { word, .. } => {
                footprint.reads = Some(Place::Word(word));
                footprint.writes = Some(Place::Queue(word));
            }
            Operation::Wake(word) => footprint.writes = Some(Place::Queue(word)),
            Operation::Fence | Operation::Spin | Operation::Woken(_) => {}
        }
        footprint
    }

    /// Does it. `None`: the thread sleeps.
    pub(crate) fn perform(&mut self, thread: usize, operation: Operation) -> Option<u64> {
        self.ticks += 1;
        match operation {
            Operation::Load(word) => {
                self.watch(thread, word);
                return Some(self.load(thread, word));
            }
            Operation::Store(word, value, mask) => self.buffers[thread].push_back(Buffered { word, value, mask }),
            Operation::Update(word, update) => {
                let old = self.memory[word as usize];
                match update.apply(old) {
                    Some(new) => self.set(word, new),
                    None => self.watch(thread, word),
                }
                return Some(old);
            }
            Operation::Spin => self.watched[thread].clear(),
            Operation::Wait { word, value } => return (self.memory[word as usize] != value).then_some(0),
            Operation::Fence | Operation::FenceIn(_) | Operation::Woken(_) | Operation::Wake(_) => {}
        }
        Some(0)
    }

    /// Where the oldest entry of a thread's buffer goes.
    pub(crate) fn oldest(&self, thread: usize) -> Option<u32> {
        self.buffers[thread].front().map(|entry| entry.word)
    }

    pub(crate) fn flush(&mut self, thread: usize) {
        if let Some(entry) = self.buffers[thread].pop_front() {
            let value = entry.over(self.memory[entry.word as usize]);
            self.set(entry.word, value);
        }
    }

    /// Nobody runs any more: what was stored is there.
    pub(crate) fn flush_all(&mut self) {
        for thread in 0..self.buffers.len() {
            while self.oldest(thread).is_some() {
                self.flush(thread);
            }
        }
    }
}

thread_local! {
    static PROCESSOR: RefCell<Processor> = RefCell::new(Processor::default());
    static EXECUTION: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

pub(crate) fn with<R>(action: impl FnOnce(&mut Processor) -> R) -> R {
    PROCESSOR.with(|processor| action(&mut processor.borrow_mut()))
}

/// A number that no other execution in this process has.
pub(crate) fn execution() -> u32 {
    EXECUTION.get()
}

/// Forgets all there was.
pub(crate) fn begin_execution() {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // Relaxed: a lone number.
    EXECUTION.set(NEXT.fetch_add(1, Relaxed));
    with(|processor| *processor = Processor::default());
}

pub(crate) fn begin_threads(count: usize) {
    with(|processor| {
        processor.buffers = vec![VecDeque::new(); count];
        processor.watched = vec![Vec::new(); count];
    });
}

pub(crate) fn set_running(thread: Option<usize>) {
    with(|processor| processor.running = thread);
}

/// The number of the word at this address of the host's; it has one from its first use on.
pub(crate) fn number_of(address: usize, first: u64) -> u32 {
    with(|processor| {
        let next = processor.memory.len() as u32;
        let number = *processor.numbers.entry(address).or_insert(next);
        if number == next {
            processor.memory.push(first);
            processor.versions.push(0);
        }
        number
    })
}

/// The calling thread's next step; returns when it has happened. Outside of threads it happens at once.
pub(crate) fn step(operation: Operation) -> u64 {
    if with(|processor| processor.running.is_some()) {
        return crate::explore::execution::suspend(operation);
    }
    step_at_once(operation)
}

/// It is no step.
pub(crate) fn step_at_once(operation: Operation) -> u64 {
    with(|processor| match operation {
        Operation::Load(word) => processor.memory[word as usize],
        Operation::Store(word, value, mask) => {
            let below = processor.memory[word as usize];
            processor.set(word, below & !mask | value & mask);
            0
        }
        Operation::Update(word, update) => {
            let old = processor.memory[word as usize];
            if let Some(new) = update.apply(old) {
                processor.set(word, new);
            }
            old
        }
        _ => 0,
    })
}

/// The machine itself: whoever has one is a virtual thread of the execution under way, or builds or checks it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulated;

impl Simulated {
    /// The number of the thread that runs.
    pub fn thread(self) -> Option<usize> {
        with(|processor| processor.running)
    }
}

impl Machine for Simulated {
    type U32 = Word32;
    type U64 = crate::explore::words::Word64;

    fn fence(self) {
        step(Operation::Fence);
    }

    fn compiler_fence(self) {}

    fn barrier_everywhere(self) {
        step(Operation::Fence);
        let (me, threads) = with(|processor| (processor.running, processor.buffers.len()));
        for other in (0..threads).filter(|other| Some(*other) != me) {
            step(Operation::FenceIn(other));
        }
    }

    fn futex_wait(self, word: &Word32, value: u32, _nanoseconds: u64) {
        step(Operation::Wait {
            word: word.0.number(),
            value: u64::from(value),
        });
    }

    fn futex_wake_all(self, word: &Word32) {
        step(Operation::Wake(word.0.number()));
    }

    fn spin(self) {
        step(Operation::Spin);
    }

    fn yield_now(self) {
        step(Operation::Spin);
    }

    fn ticks(self) -> u64 {
        with(|processor| processor.ticks)
    }

    fn nanoseconds(self) -> u64 {
        self.ticks()
    }
}
