//! Bodies that are held in memory: so many bytes of each who asks, at a time.
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::MutexGuard;

pub struct InFlight {
    bytes_max: usize,
    taken: Mutex<BTreeMap<[u8; 16], usize>>,
}

/// Given back when it is dropped.
pub struct Held<'a> {
    of: &'a InFlight,
    who: [u8; 16],
    bytes: usize,
}

impl InFlight {
    pub fn new(bytes_max: usize) -> InFlight {
        InFlight {
            bytes_max,
            taken: Mutex::default(),
        }
    }

    /// Nothing if that would be more than they may hold.
    pub fn hold(&self, who: [u8; 16], bytes: usize) -> Option<Held<'_>> {
        let mut taken = self.taken();
        let sum = taken.entry(who).or_default();
        if sum.saturating_add(bytes) > self.bytes_max {
            return None;
        }
        *sum += bytes;
        Some(Held { of: self, who, bytes })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], usize>> {
        self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(sum) = self.of.taken().get_mut(&self.who) {
            *sum -= self.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holds_so_much_and_gives_it_back() {
        let in_flight = InFlight::new(10);
        let first = in_flight.hold([1; 16], 6).expect("room");
        assert!(in_flight.hold([1; 16], 5).is_none());
        assert!(in_flight.hold([2; 16], 10).is_some());
        drop(first);
        assert!(in_flight.hold([1; 16], 10).is_some());
    }
}
