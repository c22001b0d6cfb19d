//! What is remembered of a thread: where its synchronisation was, and where in its code each of its instances.
//!
//! Instances are numbered 0, 1, 2 … in each thread. Of each we keep 8 bytes; all else is found by its number.
use crate::Unusable;
use crate::table::Table;
use run_model::Instance;
use run_model::Place;
use run_model::SiteId;
use run_model::ThreadIndex;

/// The static instructions, each with a number.
#[derive(Debug)]
pub(crate) struct Instructions {
    table: Table,
    places: Vec<(u32, u32)>,
}

impl Instructions {
    pub fn new() -> Instructions {
        Instructions {
            table: Table::new(),
            places: Vec::new(),
        }
    }

    fn number(&mut self, at: &Place) -> Option<u32> {
        let key = u64::from(at.site.0) << 32 | u64::from(at.ordinal);
        let (number, is_new) = self.table.number(key)?;
        if is_new {
            self.places.push((at.site.0, at.ordinal));
        }
        Some(number)
    }
}

/// A thread's synchronisation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Synchronisation {
    /// In the total order, from 1 on.
    pub position: u64,
    /// The thread's instances before it.
    pub instances: u64,
}

/// An instance without what its number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compact {
    instruction: u32,
    /// Without the base that holds here.
    transfers: u32,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    /// Of each event, ordered or not: the thread's instances before it.
    events: Vec<u64>,
    /// The ordered ones among them.
    pub synchronisation: Vec<Synchronisation>,
    instances: Vec<Compact>,
    /// From this instance on, so much is to be added to its transfers. Rarely has any: they start again with each event.
    bases: Vec<(u64, u64)>,
    /// The last instance, unless there was an event after it.
    last: Option<Place>,
    pub accesses: u64,
}

impl History {
    /// How many events the thread has completed.
    pub fn segment(&self) -> u64 {
        self.events.len() as u64
    }

    /// Position of its last synchronisation, 0 if there is none.
    pub fn position(&self) -> u64 {
        self.synchronisation.last().map_or(0, |last| last.position)
    }

    pub fn add_unordered(&mut self) {
        self.events.push(self.instances.len() as u64);
        self.last = None;
    }

    pub fn add_ordered(&mut self, position: u64) {
        let instances = self.instances.len() as u64;
        self.synchronisation.push(Synchronisation { position, instances });
        self.add_unordered();
    }

    /// Number of the instance. Accesses that follow each other at one place are one instance.
    #[inline]
    pub fn add_access<E>(
        &mut self,
        thread: usize,
        at: &Place,
        instructions: &mut Instructions,
    ) -> Result<u64, Unusable<E>> {
        self.accesses += 1;
        let number = self.instances.len() as u64;
        if let Some(last) = &self.last {
            if last == at {
                return Ok(number - 1);
            }
            if at.transfers < last.transfers {
                return Err(Unusable::Transfers {
                    thread: ThreadIndex(thread as u32),
                    previous: last.transfers,
                    found: at.transfers,
                });
            }
        }
        let instruction = instructions.number(at).ok_or(Unusable::TooLarge { what: "places" })?;
        let base = self.bases.last().map_or(0, |(_, base)| *base);
        let difference = at.transfers.checked_sub(base).and_then(|rest| u32::try_from(rest).ok());
        let transfers = difference.unwrap_or_else(|| {
            // Down to zero as soon as it fits, so that a base is needed once in 2^32 transfers.
            let base = if u32::try_from(at.transfers).is_ok() {
                0
            } else {
                at.transfers
            };
            self.bases.push((number, base));
            (at.transfers - base) as u32
        });
        self.instances.push(Compact { instruction, transfers });
        self.last = Some(*at);
        Ok(number)
    }

    /// How many synchronisations come before the instance.
    pub fn clock(&self, number: u64) -> usize {
        self.synchronisation.partition_point(|sync| sync.instances <= number)
    }

    /// How many of the thread's instances come before its last synchronisation up to `position`.
    pub fn instances_before(&self, position: u64) -> u64 {
        let passed = self.synchronisation.partition_point(|sync| sync.position <= position);
        passed
            .checked_sub(1)
            .map_or(0, |last| self.synchronisation[last].instances)
    }

    fn transfers(&self, number: u64) -> u64 {
        let bases = self.bases.partition_point(|(from, _)| *from <= number);
        let base = bases.checked_sub(1).map_or(0, |last| self.bases[last].1);
        base + u64::from(self.instances[number as usize].transfers)
    }

    fn segment_of(&self, number: u64) -> u64 {
        self.events.partition_point(|before| *before <= number) as u64
    }

    pub fn instance(&self, number: u64, instructions: &Instructions) -> Instance {
        let (site, ordinal) = instructions.places[self.instances[number as usize].instruction as usize];
        Instance {
            segment: self.segment_of(number),
            place: Place {
                site: SiteId(site),
                ordinal,
                transfers: self.transfers(number),
            },
        }
    }

    /// The first of these instances, which are in ascending order, that looks like another one of the thread.
    pub fn find_ambiguous(&self, numbers: &[u64]) -> Option<u64> {
        let mut rest = numbers;
        while let [first, ..] = rest {
            let near = self.near(*first);
            let mut instructions: Vec<u32> = self.instances[near.start as usize..near.end as usize]
                .iter()
                .map(|instance| instance.instruction)
                .collect();
            instructions.sort_unstable();
            let (here, behind) = rest.split_at(rest.partition_point(|number| *number < near.end));
            let is_ambiguous = |number: &&u64| {
                let instruction = self.instances[**number as usize].instruction;
                let before = instructions.partition_point(|other| *other < instruction);
                instructions.get(before + 1) == Some(&instruction)
            };
            if let Some(ambiguous) = here.iter().find(is_ambiguous) {
                return Some(*ambiguous);
            }
            rest = behind;
        }
        None
    }

    /// The instances with no event and no control transfer between them and this one.
    fn near(&self, number: u64) -> std::ops::Range<u64> {
        let (segment, transfers) = (self.segment_of(number), self.transfers(number));
        let start = segment.checked_sub(1).map_or(0, |event| self.events[event as usize]);
        let end = self.events.get(segment as usize).copied();
        let end = end.unwrap_or(self.instances.len() as u64);
        let first = |is_before: &dyn Fn(u64) -> bool| {
            let (mut low, mut high) = (start, end);
            while low < high {
                let middle = low + (high - low) / 2;
                match is_before(self.transfers(middle)) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            low
        };
        first(&|other| other < transfers)..first(&|other| other <= transfers)
    }
}
