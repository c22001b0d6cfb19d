//! An order of events in which every read finds its value, near the one that versions suggest.
//!
//! Threads take their events in turn. One that writes nothing open is taken as soon as the content is what it saw: that
//! changes nothing for others. So only writes are a choice; the one that versions put first is tried first. What has led nowhere
//! once is not tried again, so a mistake costs little more than the way back to it.
use crate::nodes::Lists;
use crate::nodes::Numbering;
use crate::problem::Node;
use crate::versions::access::bytes_of;
use crate::versions::access::different_bytes;
use std::collections::BTreeSet;

/// So many choices are made, at most: some for each event, but not for ever.
const CHOICES: usize = 1000;
const CHOICES_MAX: usize = 4_000_000;

/// What an event does to a part of memory, and what it has to find there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Touch {
    pub(crate) part: u32,
    /// Bytes that it read and whose value is known, and the value.
    pub(crate) read: u8,
    pub(crate) saw: u64,
    /// It saw something that was written, not what was there from the beginning.
    pub(crate) saw_write: bool,
    /// Bytes that it writes; the value, and whether nobody knows that.
    pub(crate) written: u8,
    pub(crate) value: u64,
    pub(crate) unknown: bool,
    /// Where versions put it: of what writes, its place among the part's writes; of what reads, after how many of them.
    pub(crate) rank: u32,
}

/// What a part holds. Bytes that are not known may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) value: u64,
    pub(crate) known: u8,
}

impl Held {
    /// With zero in these bytes.
    pub(crate) fn without(self, bytes: u8) -> Held {
        Held {
            value: self.value & !bytes_of(bytes),
            known: self.known | bytes,
        }
    }

    fn hash(self, part: u32) -> u64 {
        mix(self.value ^ mix(u64::from(self.known) << 32 | u64::from(part)).rotate_left(17))
    }

    fn allows(self, touch: &Touch) -> bool {
        different_bytes(self.value, touch.saw) & touch.read & self.known == 0
    }

    fn after(self, touch: &Touch) -> Held {
        let bytes = bytes_of(touch.written);
        match touch.unknown {
            true => Held {
                value: self.value & !bytes,
                known: self.known & !touch.written,
            },
            false => Held {
                value: self.value & !bytes | touch.value,
                known: self.known | touch.written,
            },
        }
    }
}

/// A number in which each bit depends on all of this one's.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// What the events touch, and what has to come before each.
pub(crate) struct Events {
    numbering: Numbering,
    touches: Lists<Touch>,
    after: Lists<Node>,
}

impl Events {
    /// `lengths`: of each thread. `after`: pairs of which the second has to come before the first.
    pub(crate) fn new(
        lengths: impl IntoIterator<Item = u32>,
        touches: &[(Node, Touch)],
        after: impl Iterator<Item = (Node, Node)> + Clone,
    ) -> Events {
        let numbering = Numbering::new(lengths);
        let touches = touches.iter().map(|(node, touch)| (numbering.id(*node), *touch));
        let after = after.map(|(node, before)| (numbering.id(node), before));
        Events {
            touches: Lists::new(numbering.nodes(), touches, Touch::default()),
            after: Lists::new(numbering.nodes(), after, Node { chain: 0, position: 0 }),
            numbering,
        }
    }

    pub(crate) fn threads(&self) -> u32 {
        self.numbering.chains() as u32
    }

    fn touches(&self, node: Node) -> &[Touch] {
        self.touches.of(self.numbering.id(node))
    }
}

/// A choice that was made: how much had been done before it, and what else could be done.
struct Choice {
    done: usize,
    /// Threads that could write next, worst first.
    open: Vec<u32>,
}

/// All events in an order that gives each read its value. `contents`: at first. `early`: by how many writes of its part a read
/// may come before its rank.
pub(crate) fn find(events: &Events, contents: Vec<Held>, early: u32) -> Option<Vec<Node>> {
    let count = events.numbering.nodes();
    let mut interleaving = Interleaving {
        events,
        early,
        positions: vec![0; events.numbering.chains()],
        written: vec![0; contents.len()],
        reads: vec![0; contents.len()],
        reads_due: reads_due(events, contents.len()),
        contents,
        order: Vec::with_capacity(count),
        overwritten: Vec::new(),
        hash: 0,
    };
    let mut failed: BTreeSet<u64> = BTreeSet::new();
    let mut choices: Vec<Choice> = Vec::new();
    let most = count.saturating_mul(CHOICES).min(CHOICES_MAX.max(2 * count));
    for _ in 0..most {
        interleaving.read();
        if interleaving.order.len() == count {
            return Some(interleaving.order);
        }
        let mut open = Vec::new();
        if failed.insert(interleaving.hash) {
            open = interleaving.writers();
        }
        let next = loop {
            if let Some(next) = open.pop() {
                break next;
            }
            let choice = choices.pop()?;
            interleaving.go_back(choice.done);
            open = choice.open;
        };
        let done = interleaving.order.len();
        choices.push(Choice { done, open });
        interleaving.take(next);
    }
    None
}

/// For each part, after each number of writes, how many reads should be done.
fn reads_due(events: &Events, parts: usize) -> Vec<Vec<u32>> {
    let mut due: Vec<Vec<u32>> = vec![Vec::new(); parts];
    for touch in events.touches.all().iter().filter(|touch| touch.written == 0) {
        let due = &mut due[touch.part as usize];
        let rank = touch.rank as usize;
        if due.len() <= rank {
            due.resize(rank + 1, 0);
        }
        due[rank] += 1;
    }
    for due in &mut due {
        for rank in 1..due.len() {
            due[rank] += due[rank - 1];
        }
    }
    due
}

struct Interleaving<'a> {
    events: &'a Events,
    early: u32,
    /// How many events of each thread are done.
    positions: Vec<u32>,
    contents: Vec<Held>,
    /// How many writes of each part are done.
    written: Vec<u32>,
    /// How many reads of each part are done; and for each number of writes, how many should be.
    reads: Vec<u32>,
    reads_due: Vec<Vec<u32>>,
    /// The events that are done.
    order: Vec<Node>,
    /// For each write of these, in their order, what was there.
    overwritten: Vec<Held>,
    /// Of positions and contents.
    hash: u64,
}

impl Interleaving<'_> {
    /// The thread's next event, if it has one.
    fn position(&self, thread: u32) -> Node {
        Node {
            chain: thread,
            position: self.positions[thread as usize],
        }
    }

    /// What the next event of a thread touches, if nothing has to come before it.
    fn next(&self, thread: u32) -> Option<&[Touch]> {
        let Events { numbering, after, .. } = self.events;
        let node = self.position(thread);
        if node.position == numbering.length(thread) {
            return None;
        }
        let mut before = after.of(numbering.id(node)).iter();
        let is_due = before.all(|before| self.positions[before.chain as usize] > before.position);
        let touches = self.events.touches(node);
        let is_possible = |touch: &Touch| {
            let part = touch.part as usize;
            let written = self.written[part];
            let is_early = touch.written == 0 && touch.rank > written.saturating_add(self.early);
            self.contents[part].allows(touch) && !is_early && (written > 0 || !touch.saw_write)
        };
        (is_due && touches.iter().all(is_possible)).then_some(touches)
    }

    /// Takes all events that write nothing, and find what they saw.
    fn read(&mut self) {
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for thread in 0..self.events.threads() {
                while self
                    .next(thread)
                    .is_some_and(|touches| touches.iter().all(|touch| touch.written == 0))
                {
                    self.take(thread);
                    is_changed = true;
                }
            }
        }
    }

    /// Threads that can write now: last the one whose turn it is by versions.
    fn writers(&self) -> Vec<u32> {
        // By how many writes it would be early, and how many reads it would be that should have come before.
        let early = |touch: &Touch| {
            let part = touch.part as usize;
            let written = self.written[part];
            let due = self.reads_due[part]
                .get(written as usize)
                .or(self.reads_due[part].last());
            let due = due.copied().unwrap_or(0);
            i64::from(touch.rank.saturating_sub(written)) + i64::from(due.saturating_sub(self.reads[part]))
        };
        let mut writers: Vec<(i64, u32)> = Vec::new();
        for thread in 0..self.events.threads() {
            if let Some(touches) = self.next(thread) {
                let writes = touches.iter().filter(|touch| touch.written != 0);
                writers.extend(writes.map(early).max().map(|early| (early, thread)));
            }
        }
        writers.sort_unstable_by(|one, other| other.cmp(one));
        writers.into_iter().map(|(_, thread)| thread).collect()
    }

    fn take(&mut self, thread: u32) {
        let node = self.position(thread);
        let events = self.events;
        for touch in events.touches(node) {
            if touch.written != 0 {
                let before = self.contents[touch.part as usize];
                self.overwritten.push(before);
                self.set(touch.part, before.after(touch));
                self.written[touch.part as usize] += 1;
            } else {
                self.reads[touch.part as usize] += 1;
            }
        }
        self.go_to(thread, node.position + 1);
        self.order.push(node);
    }

    /// Undoes all but the first `done` events.
    fn go_back(&mut self, done: usize) {
        let events = self.events;
        for node in self.order.split_off(done).into_iter().rev() {
            for touch in events.touches(node).iter().rev() {
                if touch.written != 0 {
                    let before = self.overwritten.pop().expect("every write has put one there");
                    self.set(touch.part, before);
                    self.written[touch.part as usize] -= 1;
                } else {
                    self.reads[touch.part as usize] -= 1;
                }
            }
            self.go_to(node.chain, node.position);
        }
    }

    fn set(&mut self, part: u32, content: Held) {
        let before = self.contents[part as usize];
        self.hash ^= before.hash(part) ^ content.hash(part);
        self.contents[part as usize] = content;
    }

    fn go_to(&mut self, thread: u32, position: u32) {
        let before = self.positions[thread as usize];
        let hash = |position: u32| mix(u64::from(thread) << 32 | u64::from(position));
        self.hash ^= hash(before) ^ hash(position);
        self.positions[thread as usize] = position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, from a seed.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        }
    }

    /// Each thread's events touch one thing each. `after`: as for [`Events`].
    fn events(threads: &[Vec<Touch>], after: &[(Node, Node)]) -> Events {
        let mut touches = Vec::new();
        for (chain, thread) in (0..).zip(threads) {
            touches.extend(
                (0..)
                    .zip(thread)
                    .map(|(position, touch)| (Node { chain, position }, *touch)),
            );
        }
        let lengths = threads.iter().map(|thread| thread.len() as u32);
        Events::new(lengths, &touches, after.iter().copied())
    }

    fn write(value: u64, rank: u32) -> Touch {
        Touch {
            written: 1,
            value,
            rank,
            ..Touch::default()
        }
    }

    fn read(saw: u64) -> Touch {
        Touch {
            read: 1,
            saw,
            ..Touch::default()
        }
    }

    const ZERO: Held = Held {
        value: 0,
        known: u8::MAX,
    };

    /// Does each read find its value in this order? That of each thread is kept, and nothing is missing.
    fn explains(events: &Events, contents: &[Held], order: &[Node]) -> bool {
        let mut contents = contents.to_vec();
        let mut positions = vec![0; events.numbering.chains()];
        for node in order {
            if positions[node.chain as usize] != node.position {
                return false;
            }
            positions[node.chain as usize] += 1;
            for touch in events.touches(*node) {
                let content = &mut contents[touch.part as usize];
                if !content.allows(touch) {
                    return false;
                }
                *content = content.after(touch);
            }
        }
        (0..events.threads()).all(|thread| positions[thread as usize] == events.numbering.length(thread))
    }

    #[test]
    fn a_write_that_is_late() {
        // The first by its version, the last by its value.
        let threads = [vec![write(1, 0)], vec![write(2, 1), read(2), write(3, 2), read(1)]];
        let events = events(&threads, &[]);
        let order = find(&events, vec![ZERO], 4).expect("there is an order");
        assert!(explains(&events, &[ZERO], &order));
    }

    #[test]
    fn what_cannot_be() {
        // Each saw the other's write overwrite its own.
        let threads = [vec![write(1, 0), read(2), read(1)], vec![write(2, 0), read(1)]];
        assert_eq!(find(&events(&threads, &[]), vec![ZERO], 4), None);
    }

    #[test]
    fn what_has_to_come_before() {
        let threads = [vec![write(1, 0)], vec![write(2, 1), read(2)]];
        let (first, last) = (Node { chain: 0, position: 0 }, Node { chain: 1, position: 1 });
        let order = find(&events(&threads, &[(first, last)]), vec![ZERO], 4).expect("there is an order");
        assert_eq!(order.last(), Some(&first));
    }

    /// Runs of random programs with few values; versions are wrong by some places.
    #[test]
    fn runs_that_happened() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let (count, parts, values) = (2 + random.below(3), 1 + random.below(3), 2 + random.below(6));
            let mut contents = vec![ZERO; parts as usize];
            let mut written = vec![0; parts as usize];
            let mut threads: Vec<Vec<Touch>> = vec![Vec::new(); count as usize];
            for _ in 0..400 {
                let (thread, part) = (random.below(count) as usize, random.below(parts) as usize);
                let touch = if random.below(2) == 0 {
                    let rank = written[part] + random.below(4) as u32;
                    written[part] += 1;
                    write(random.below(values), rank)
                } else {
                    Touch {
                        rank: written[part] + random.below(2) as u32,
                        ..read(contents[part].value)
                    }
                };
                let touch = Touch {
                    part: part as u32,
                    ..touch
                };
                contents[part] = contents[part].after(&touch);
                threads[thread].push(touch);
            }
            let events = events(&threads, &[]);
            let contents = vec![ZERO; parts as usize];
            let order = find(&events, contents.clone(), 4);
            let order = order.unwrap_or_else(|| panic!("seed {seed}: no order was found of a run that happened"));
            assert!(explains(&events, &contents, &order), "seed {seed}");
        }
    }
}
