//! A record to bytes. Runs inside the recorded process: no allocation, and no failure but a broken contract.
use crate::predict::Predictor;
use crate::predict::head;
use crate::predict::object_code;
use crate::predict::zigzag;
use run_model::Access;
use run_model::Kind;
use run_model::MAX_SOURCES;
use run_model::Op;
use run_model::Point;
#[cfg(feature = "std")]
use run_model::Record;
use run_model::SiteId;

/// First byte, access or operation, event, object, site, value, number of sources, each at its longest; then sources of
/// a 5-byte thread and a 10-byte count. (A version takes less than the sources it stands in place of.)
pub const MAX_RECORD_BYTES: usize = 1 + 1 + 10 + 10 + 5 + 10 + 1 + MAX_SOURCES * (5 + 10);

/// First byte, event, and a thread or the number of sources; or first byte, extent, event.
pub const MIN_RECORD_BYTES: usize = 3;

/// A `run_model::Record` whose sources are somebody else's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordRef<'a> {
    pub event: u64,
    pub kind: Kind,
    /// Written in `Sync` records only.
    pub op: Op,
    /// Written in `Run`, `Read` and `Write` records only.
    pub access: Access,
    pub object: u64,
    pub site: SiteId,
    pub value: i64,
    /// At most `MAX_SOURCES`; not written in `Read` and `Write` records.
    pub sources: &'a [Point],
    /// Written in `Read` and `Write` records only.
    pub version: u64,
}

impl<'a> RecordRef<'a> {
    /// `record` with `sources` in place of its own.
    #[cfg(feature = "std")]
    fn with_sources(record: &Record, sources: &'a [Point]) -> RecordRef<'a> {
        RecordRef {
            event: record.event,
            kind: record.kind,
            op: record.op,
            access: record.access,
            object: record.object,
            site: record.site,
            value: record.value,
            sources,
            version: record.version,
        }
    }
}

/// The encoder of one thread's log, from its first record to its last.
#[derive(Clone, Debug)]
pub struct Encoder {
    predictor: Predictor,
}

impl Encoder {
    pub const fn new() -> Encoder {
        Encoder {
            predictor: Predictor::new(),
        }
    }

    /// Writes `record` to the front of `out` and returns how many bytes it takes. The first is never zero.
    ///
    /// # Panics
    /// If there are more than `MAX_SOURCES` sources, or the event is smaller than the one before: a record that cannot
    /// be written must not be lost in silence.
    pub fn encode(&mut self, record: &RecordRef<'_>, out: &mut [u8; MAX_RECORD_BYTES]) -> usize {
        let RecordRef {
            event,
            kind,
            op,
            access,
            object,
            site,
            value,
            sources,
            version,
        } = *record;
        assert!(sources.len() <= MAX_SOURCES, "{} sources in one record", sources.len());
        assert!(
            event >= self.predictor.event(),
            "event {event} after {}",
            self.predictor.event()
        );
        debug_assert!(
            kind == Kind::Sync || op == Op::None,
            "{kind:?} records have no operation"
        );
        debug_assert!(
            kind == Kind::Run || kind.is_versioned() || access == Access(0),
            "{kind:?} records have no access"
        );
        debug_assert!(
            if kind.is_versioned() {
                sources.is_empty()
            } else {
                version == 0
            },
            "{kind:?} records have either sources or a version"
        );

        let same_object = object == self.predictor.object(kind);
        let same_site = site.0 == self.predictor.site(kind);
        let value_difference = value.wrapping_sub(self.predictor.value(kind));
        let mut first = kind as u8;
        first |= if same_object { head::SAME_OBJECT } else { 0 };
        first |= if same_site { head::SAME_SITE } else { 0 };
        first |= if value_difference == 0 { head::SAME_VALUE } else { 0 };
        let version_difference = version.wrapping_sub(self.predictor.version());
        let is_short = if kind.is_versioned() {
            version_difference == 0
        } else {
            sources.len() == 1
        };
        first |= if is_short { head::ONE_SOURCE } else { 0 };

        let mut out = Cursor { bytes: out, length: 0 };
        out.byte(first);
        match kind {
            Kind::Sync => out.byte(op as u8),
            Kind::Run | Kind::Read | Kind::Write => out.byte(access.0),
            _ => {}
        }
        out.varint(event - self.predictor.event());
        if !same_object {
            out.varint(object_code(kind, object, self.predictor.object(kind)));
        }
        if !same_site {
            out.varint(zigzag(i64::from(site.0.wrapping_sub(self.predictor.site(kind)) as i32)));
        }
        if value_difference != 0 {
            out.varint(zigzag(value_difference));
        }
        if kind.is_versioned() {
            if version_difference != 0 {
                out.varint(zigzag(version_difference as i64));
            }
            self.predictor.learn_version(version);
        } else if sources.len() != 1 {
            out.byte(sources.len() as u8);
        }
        for source in sources {
            out.varint(u64::from(source.thread.0));
            out.varint(zigzag(
                source.count.wrapping_sub(self.predictor.count(source.thread.0)) as i64
            ));
            self.predictor.learn_source(*source);
        }
        self.predictor.learn(event, kind, object, site, value);
        out.length
    }
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

struct Cursor<'a> {
    bytes: &'a mut [u8; MAX_RECORD_BYTES],
    length: usize,
}

impl Cursor<'_> {
    fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Little-endian groups of seven bits; the high bit says that more follow.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }
}

/// A whole log file of `thread`, as the runtime would have left it. For tests, tools and simulations.
#[cfg(feature = "std")]
pub fn encode_log(thread: run_model::ThreadIndex, records: &[Record]) -> Vec<u8> {
    let mut bytes = crate::frame::header(thread).to_vec();
    let mut encoder = Encoder::new();
    let mut hash = crate::RollingHash::new();
    let mut buffer = [0; MAX_RECORD_BYTES];
    for record in records {
        let sources: Vec<Point> = record.sources.iter().collect();
        let length = encoder.encode(&RecordRef::with_sources(record, &sources), &mut buffer);
        hash.update(&buffer[..length]);
        bytes.extend_from_slice(&buffer[..length]);
    }
    let tail = crate::Tail::new((bytes.len() - crate::HEADER_BYTES) as u64, hash).pack();
    bytes[crate::TAIL_OFFSET..crate::TAIL_OFFSET + 8].copy_from_slice(&tail.to_le_bytes());
    bytes
}
