//! What encoder and decoder both remember, so that a record can be written as its difference from what was expected.
//!
//! A fixed amount of state per thread, no allocation, and nothing that depends on another thread: each log can be
//! decoded alone, and from its beginning only.
use run_model::Kind;
use run_model::Point;
use run_model::SiteId;

/// Threads that share a slot only predict each other badly; they are never mixed up.
const SOURCE_SLOTS: usize = 16;
/// One past the greatest `Kind`.
const KINDS: usize = Kind::ALL.len() + 1;

#[derive(Clone, Debug)]
pub(crate) struct Predictor {
    event: u64,
    /// Newest epoch in a Share, Seen or Exit record: the next one is a little greater.
    epoch: i64,
    /// Of the last Read or Write record.
    version: u64,
    objects: [u64; KINDS],
    sites: [u32; KINDS],
    counts: [u64; SOURCE_SLOTS],
}

impl Predictor {
    pub(crate) const fn new() -> Predictor {
        Predictor {
            event: 0,
            epoch: 0,
            version: 0,
            objects: [0; KINDS],
            sites: [0; KINDS],
            counts: [0; SOURCE_SLOTS],
        }
    }

    /// The last record's event; the next one is not smaller.
    pub(crate) fn event(&self) -> u64 {
        self.event
    }

    pub(crate) fn object(&self, kind: Kind) -> u64 {
        self.objects[kind as usize]
    }

    pub(crate) fn site(&self, kind: Kind) -> u32 {
        self.sites[kind as usize]
    }

    pub(crate) fn value(&self, kind: Kind) -> i64 {
        if has_epoch(kind) { self.epoch } else { 0 }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn learn_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Count of the last source of this thread, or of one that shares its slot.
    pub(crate) fn count(&self, thread: u32) -> u64 {
        self.counts[thread as usize % SOURCE_SLOTS]
    }

    pub(crate) fn learn_source(&mut self, source: Point) {
        self.counts[source.thread.0 as usize % SOURCE_SLOTS] = source.count;
    }

    pub(crate) fn learn(&mut self, event: u64, kind: Kind, object: u64, site: SiteId, value: i64) {
        self.event = event;
        self.objects[kind as usize] = object;
        self.sites[kind as usize] = site.0;
        if has_epoch(kind) {
            self.epoch = value;
        }
    }
}

/// Kinds whose `value` is the number of an epoch.
fn has_epoch(kind: Kind) -> bool {
    matches!(kind, Kind::Share | Kind::Seen | Kind::Exit)
}

/// Bits of a record's first byte beside the kind. Each says that a field is as expected and left out.
pub(crate) mod head {
    #[cfg(feature = "std")]
    pub(crate) const KIND: u8 = 0x0f;
    pub(crate) const SAME_OBJECT: u8 = 0x10;
    pub(crate) const SAME_SITE: u8 = 0x20;
    pub(crate) const SAME_VALUE: u8 = 0x40;
    /// Exactly one source; otherwise a byte says how many. In records with a version: it is that of the last one.
    pub(crate) const ONE_SOURCE: u8 = 0x80;
}

/// Kinds whose objects are multiples of a power of two are written without their low zero bits.
pub(crate) fn object_shift(kind: Kind) -> u32 {
    match kind {
        Kind::Take | Kind::Share => 6,
        Kind::Run => 3,
        Kind::Read | Kind::Write => 2,
        _ => 0,
    }
}

/// Signed difference as an unsigned number that is small when the difference is.
pub(crate) fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

#[cfg(feature = "std")]
pub(crate) fn unzigzag(code: u64) -> i64 {
    (code >> 1) as i64 ^ -((code & 1) as i64)
}

/// The difference of two objects of `kind`, so that rotated-out low bits (zero as a rule) cost only when they are set.
pub(crate) fn object_code(kind: Kind, object: u64, expected: u64) -> u64 {
    let shift = object_shift(kind);
    let difference = object.wrapping_sub(expected);
    let low = difference & ((1 << shift) - 1);
    let high = (difference as i64) >> shift;
    // The low bits go on top, where a zero costs nothing in a varint. `high` has `shift` bits of sign to spare.
    (zigzag(high) & (u64::MAX >> shift)) | if shift == 0 { 0 } else { low << (64 - shift) }
}

#[cfg(feature = "std")]
pub(crate) fn object_from_code(kind: Kind, code: u64, expected: u64) -> u64 {
    let shift = object_shift(kind);
    let low = if shift == 0 { 0 } else { code >> (64 - shift) };
    let high = unzigzag(code & (u64::MAX >> shift));
    expected.wrapping_add(((high << shift) as u64) | low)
}
