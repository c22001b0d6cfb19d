//! The runs on contended cells, put together from `Run` records.
//!
//! A record tells how its run begins, and in its source where the previous one ended. So a cell's records form a chain;
//! the run that the first record follows has no record of its own.
use crate::extent::Extents;
use crate::translation::near::partition_point_near;
use run_model::Access;
use run_model::HIDING_PAGE_BYTES;
use run_model::Kind;
use run_model::Logs;
use run_model::Record;

/// A maximal sequence of accesses to one cell by one thread, with none by another between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) thread: u32,
    /// Index of its record, if it has one.
    pub(crate) record: u32,
    /// `None`: the first run of the cell, which has no record. Nobody used the cell before, or those who did have been
    /// ordered before it by other records.
    pub(crate) first: Option<u64>,
    pub(crate) last: u64,
    /// Its first access reads what was written before it.
    pub(crate) reads: bool,
    /// It wrote, at its first access or later.
    pub(crate) wrote: bool,
}

/// The pages some of whose cells' changes of hands may have no record (`Access::AFTER_HIDDEN`), ascending.
pub(crate) struct HidingPages(Vec<u64>);

impl HidingPages {
    pub(crate) fn among(logs: &Logs) -> HidingPages {
        let records = logs.threads.iter().flat_map(|log| &log.records);
        let mut pages = Vec::new();
        for record in records.filter(|r| r.hides()) {
            let page = record.object / HIDING_PAGE_BYTES;
            if pages.last() != Some(&page) {
                pages.push(page);
            }
        }
        pages.sort_unstable();
        pages.dedup();
        HidingPages(pages)
    }

    pub(crate) fn contains(&self, cell: u64) -> bool {
        !self.0.is_empty() && self.0.binary_search(&(cell / HIDING_PAGE_BYTES)).is_ok()
    }
}

/// The `Run` records of replayed events on cells all of whose runs are known: by cell, and for each cell by thread and
/// event.
///
/// They are copied out of the logs once: cell by cell, logs are read all over the place.
pub(crate) struct Cells<'a> {
    /// For each thread, how many of its events are replayed.
    events: &'a [u64],
    links: Vec<Link>,
}

impl<'a> Cells<'a> {
    pub(crate) fn new(logs: &'a Logs, extents: &'a Extents, hiding: &HidingPages) -> Cells<'a> {
        let mut links = Vec::new();
        for (thread, log) in (0..).zip(&logs.threads) {
            for (index, record) in log.records.iter().enumerate() {
                // Where changes of hands have no record, the runs are not all known: the records bind as they stand.
                if record.kind == Kind::Run && extents.contains(thread, record.event) && !hiding.contains(record.object)
                {
                    let index = u32::try_from(index).expect("4 billion records of one thread would need 200 GB");
                    links.push(Link::new(thread, index, record));
                }
            }
        }
        // Equal cells stay in the order of threads and events.
        links.sort_by_key(|link| link.cell);
        let mut scratch = Scratch {
            previous: Vec::new(),
            hints: vec![0; logs.threads.len()],
        };
        for cell in links.chunk_by_mut(|one, other| one.cell == other.cell) {
            scratch.connect(cell);
        }
        Cells {
            events: &extents.events,
            links,
        }
    }

    /// Calls `visit` with each life of each cell, always in the same order.
    pub(crate) fn for_each_life(&self, mut visit: impl FnMut(Life<'_>)) {
        for links in self.links.chunk_by(|one, other| one.cell == other.cell) {
            for head in (0..links.len() as u32).filter(|link| links[*link as usize].is_head) {
                visit(Life {
                    links,
                    head,
                    events: self.events,
                });
            }
        }
    }
}

/// No link.
const NONE: u32 = u32::MAX;

/// A `Run` record and what follows it. Other links are numbered within their cell.
#[derive(Clone, Copy)]
struct Link {
    cell: u64,
    event: u64,
    /// Count of the source, 0 if there is none, and its thread.
    source: u64,
    source_thread: u32,
    thread: u32,
    /// Index of the record.
    record: u32,
    /// Who took over from this run.
    successor: u32,
    access: Access,
    /// A life of the cell begins here.
    is_head: bool,
}

impl Link {
    fn new(thread: u32, index: u32, record: &Record) -> Link {
        let source = record.sources.first().unwrap_or_default();
        Link {
            cell: record.object,
            event: record.event,
            // A count of zero would be a user without a use.
            source: source.count,
            source_thread: source.thread.0,
            thread,
            record: index,
            successor: NONE,
            access: record.access,
            is_head: true,
        }
    }

    /// The first to name a run is the one that followed it.
    fn precedence(&self) -> (u32, u64, u32, u64) {
        (self.source_thread, self.source, self.thread, self.event)
    }
}

/// What it takes to find who follows whom, used again for the next cell.
struct Scratch {
    /// For each link, the one whose run ended before it.
    previous: Vec<u32>,
    /// Where the last source of each thread was found.
    hints: Vec<u32>,
}

impl Scratch {
    fn connect(&mut self, links: &mut [Link]) {
        self.previous.clear();
        for link in 0..links.len() as u32 {
            let previous = self.run_before(links, link).filter(|previous| *previous != link);
            self.previous.push(previous.unwrap_or(NONE));
            let Some(previous) = previous else { continue };
            let current = links[previous as usize].successor;
            let precedence = |link: u32| links[link as usize].precedence();
            if current == NONE || precedence(link) < precedence(current) {
                links[previous as usize].successor = link;
            }
        }
        for (link, previous) in (0..).zip(&self.previous) {
            // Otherwise the source's thread had no run here, or had already passed it on: a new life of the cell.
            let follows = *previous != NONE && links[*previous as usize].successor == link;
            links[link as usize].is_head = !follows;
        }
        break_circles(links);
    }

    /// The run that contains the last event before the link's source: the newest of the thread that had begun by then.
    fn run_before(&mut self, links: &[Link], link: u32) -> Option<u32> {
        let (thread, count) = (links[link as usize].source_thread, links[link as usize].source);
        if count == 0 {
            return None;
        }
        let hint = self.hints.get(thread as usize).copied().unwrap_or(0) as usize;
        let end = partition_point_near(links.len(), hint, |l| {
            (links[l].thread, links[l].event) < (thread, count)
        });
        if let Some(hint) = self.hints.get_mut(thread as usize) {
            *hint = end as u32;
        }
        end.checked_sub(1)
            .filter(|l| links[*l].thread == thread)
            .map(|l| l as u32)
    }
}

/// Links that follow each other in a circle have no head. No recorder writes them; taken from any of them they give orders
/// that contradict each other, which is what has to be reported.
fn break_circles(links: &mut [Link]) {
    let all = 0..links.len() as u32;
    let heads = all.clone().filter(|link| links[*link as usize].is_head);
    let from_heads: usize = heads.map(|head| from(links, head).count()).sum();
    if from_heads == links.len() {
        return;
    }
    let mut visited = vec![false; links.len()];
    for head in all.clone().filter(|link| links[*link as usize].is_head) {
        from(links, head).for_each(|link| visited[link as usize] = true);
    }
    for start in all {
        if !visited[start as usize] {
            from(links, start).for_each(|link| visited[link as usize] = true);
            links[start as usize].is_head = true;
        }
    }
}

/// A link and what follows it, each once.
fn from(links: &[Link], first: u32) -> impl Iterator<Item = u32> {
    let after = move |link: &u32| {
        let next = links[*link as usize].successor;
        (next != NONE && next != first).then_some(next)
    };
    std::iter::successors(Some(first), after)
}

/// One cell from its first use to its last, or to where its memory began a new life.
pub(crate) struct Life<'a> {
    links: &'a [Link],
    head: u32,
    /// For each thread, how many of its events are replayed.
    events: &'a [u64],
}

impl Life<'_> {
    /// In the order in which they happened.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        let links = self.links;
        let head = links[self.head as usize];
        let without_record = (head.source > 0).then(|| Run {
            thread: head.source_thread,
            record: u32::MAX,
            first: None,
            last: head.source - 1,
            reads: true,
            wrote: head.access.previous_wrote(),
        });
        let with_record = from(links, self.head).map(|index| {
            let link = links[index as usize];
            let successor = links.get(link.successor as usize);
            let end = successor.map_or(self.events[link.thread as usize], |s| s.source);
            Run {
                thread: link.thread,
                record: link.record,
                first: Some(link.event),
                // A source behind the run's beginning, whatever else is wrong with it, cannot end it before it begins.
                last: (end - 1).max(link.event),
                reads: !link.access.is_blind(),
                // The last run may have written at any later access, and nobody came to see it.
                wrote: link.access.writes() || successor.is_none_or(|s| s.access.previous_wrote()),
            }
        });
        without_record.into_iter().chain(with_record)
    }
}
