//! What is registered with the epolls of a process, by what it did with them: a hybrid schedule orders `epoll_wait` if all of that is state of the process's own.
//!
//! Of several descriptors that are ready the kernel tells in an order that depends on who asked when, also if there was nothing to tell. So the order of events is ours: that in which
//! descriptors were registered, beginning behind the one that was told of last. If none of them is registered for edges, their states are asked for by `poll`. Edges only
//! the kernel knows; then the call is ordered if there is room for all, and sorted.
//!
//! The table is changed by calls that have a place in the order of the object below, when the schedule is learned and when it is enforced; and by the first thread alone.
use crate::calls::polls::Asked;
use crate::calls::polls::POLLED_MAX;
use crate::sys;
use core::ffi::c_long;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::AcqRel;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::Release;

const EPOLLS_MAX: usize = 64;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
const EVENT_BYTES: usize = size_of::<libc::epoll_event>();

/// Relaxed everywhere: who reads it to act upon it holds the object, or has its turn, as everybody has who changes it. Who looks before that compares
/// `CHANGES` afterwards.
static EPOLLS: [Epoll; EPOLLS_MAX] = [const { Epoll::new() }; EPOLLS_MAX];
/// Odd while somebody changes a table.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// One epoll, and what is registered there, in that order.
struct Epoll {
    /// One more than its descriptor; 0: none.
    name: AtomicU32,
    /// 1: more than is known may be registered.
    is_unknown: AtomicU32,
    /// Where to begin to look for something that is ready.
    next: AtomicU32,
    count: AtomicU32,
    members: [Place; POLLED_MAX],
}

struct Place {
    fd: AtomicU32,
    events: AtomicU32,
    data: AtomicU64,
    /// 1: it has been told of once, and was asked for once.
    is_silent: AtomicU32,
}

#[derive(Clone, Copy)]
pub struct Member {
    pub fd: i32,
    events: u32,
    data: u64,
    is_silent: bool,
}

impl Place {
    fn get(&self) -> Member {
        Member {
            fd: self.fd.load(Relaxed) as i32,
            events: self.events.load(Relaxed),
            data: self.data.load(Relaxed),
            is_silent: self.is_silent.load(Relaxed) != 0,
        }
    }

    fn set(&self, member: Member) {
        self.fd.store(member.fd as u32, Relaxed);
        self.events.store(member.events, Relaxed);
        self.data.store(member.data, Relaxed);
        self.is_silent.store(u32::from(member.is_silent), Relaxed);
    }
}

impl Epoll {
    const fn new() -> Epoll {
        Epoll {
            name: AtomicU32::new(0),
            is_unknown: AtomicU32::new(0),
            next: AtomicU32::new(0),
            count: AtomicU32::new(0),
            members: [const {
                Place {
                    fd: AtomicU32::new(0),
                    events: AtomicU32::new(0),
                    data: AtomicU64::new(0),
                    is_silent: AtomicU32::new(0),
                }
            }; POLLED_MAX],
        }
    }

    fn all(&self) -> &[Place] {
        &self.members[..(self.count.load(Relaxed) as usize).min(POLLED_MAX)]
    }

    fn is_known(&self) -> bool {
        self.is_unknown.load(Relaxed) == 0
    }

    fn has_edges(&self) -> bool {
        self.all().iter().any(|place| place.get().events & EDGE != 0)
    }

    fn position(&self, fd: i32) -> Option<usize> {
        self.all().iter().position(|place| place.get().fd == fd)
    }

    fn add(&self, member: Member) {
        let count = self.count.load(Relaxed) as usize;
        match self.members.get(count) {
            Some(place) => {
                place.set(member);
                self.count.store(count as u32 + 1, Relaxed);
            }
            None => self.is_unknown.store(1, Relaxed),
        }
    }

    fn remove(&self, at: usize) {
        for behind in at + 1..self.all().len() {
            self.members[behind - 1].set(self.members[behind].get());
        }
        self.count.fetch_sub(1, Relaxed);
        if self.next.load(Relaxed) as usize > at {
            self.next.fetch_sub(1, Relaxed);
        }
    }
}

fn find(descriptor: usize) -> Option<&'static Epoll> {
    EPOLLS
        .iter()
        .find(|epoll| epoll.name.load(Relaxed) == descriptor as u32 + 1)
}

/// What stands for all tables.
pub fn object() -> u64 {
    static OBJECT: AtomicU64 = AtomicU64::new(0);
    &OBJECT as *const AtomicU64 as u64
}

/// How often tables have been changed. Whoever finds another number later has seen something in between.
pub fn changes() -> u32 {
    // Acquire: pairs with the Release in `change`.
    CHANGES.load(Acquire)
}

fn change<R>(action: impl FnOnce() -> R) -> R {
    // AcqRel: what is stored below is not seen before this; pairs with the Acquire in `changes`.
    CHANGES.fetch_add(1, AcqRel);
    let result = action();
    // Release: pairs with the Acquire in `changes`.
    CHANGES.fetch_add(1, Release);
    result
}

/// All that is registered.
pub struct Members(&'static Epoll);

impl Members {
    pub fn all(&self) -> impl Iterator<Item = Member> {
        self.0.all().iter().map(Place::get)
    }
}

/// What is registered with an epoll, if that is known, and events can be told in an order of ours where there is room for `room`.
pub fn members(descriptor: usize, room: usize) -> Option<Members> {
    let epoll = find(descriptor).filter(|epoll| epoll.is_known())?;
    let fits = (1..=i32::MAX as usize / EVENT_BYTES).contains(&room);
    let is_sortable = !epoll.has_edges() || epoll.all().len() <= room;
    (fits && is_sortable).then_some(Members(epoll))
}

/// What to wait for.
pub fn asked(descriptor: usize) -> Option<Asked> {
    let epoll = find(descriptor)?;
    let mut asked = Asked::none();
    match epoll.has_edges() {
        true => asked.add(descriptor as i32, libc::POLLIN),
        false => add_all(epoll, &mut asked),
    }
    Some(asked)
}

/// All of them, so that places are those of the members; who is silent is not asked for.
fn add_all(epoll: &Epoll, asked: &mut Asked) {
    for member in epoll.all().iter().map(Place::get) {
        let fd = if member.is_silent { -1 } else { member.fd };
        asked.add(fd, member.events as i16);
    }
}

/// Tells of what is ready, without a wait.
pub fn take(arguments: &[usize; 6], real: impl FnOnce(&[usize; 6]) -> isize) -> isize {
    match find(arguments[0]) {
        Some(epoll) if epoll.has_edges() => {
            let result = real(arguments);
            if result > 0 {
                sort(epoll, arguments[1], result as usize);
            }
            result
        }
        Some(epoll) => tell(epoll, arguments),
        None => real(arguments),
    }
}

fn tell(epoll: &Epoll, arguments: &[usize; 6]) -> isize {
    let mut asked = Asked::none();
    add_all(epoll, &mut asked);
    let ready = asked.ask();
    if ready <= 0 {
        return ready;
    }
    let [descriptor, given, room, ..] = *arguments;
    let count = epoll.all().len();
    let first = epoll.next.load(Relaxed) as usize;
    let mut told = 0;
    for at in (first..count).chain(0..first.min(count)) {
        let found = (asked.all()[at].revents & !libc::POLLNVAL) as u16;
        if found == 0 || told == room {
            continue;
        }
        let member = epoll.members[at].get();
        let event = libc::epoll_event {
            events: u32::from(found),
            u64: member.data,
        };
        let place = given + told * EVENT_BYTES;
        if sys::copy_own(&raw const event as usize, place, EVENT_BYTES) != EVENT_BYTES {
            return if told == 0 {
                -libc::EFAULT as isize
            } else {
                told as isize
            };
        }
        told += 1;
        epoll.next.store(at as u32 + 1, Relaxed);
        if member.events & ONCE != 0 {
            epoll.members[at].is_silent.store(1, Relaxed);
            silence(descriptor, &member);
        }
    }
    told as isize
}

/// The kernel is to know, too: the program may leave its schedule.
fn silence(epoll: usize, member: &Member) {
    let mut event = libc::epoll_event {
        events: ONCE,
        u64: member.data,
    };
    let arguments = [
        epoll,
        libc::EPOLL_CTL_MOD as usize,
        member.fd as usize,
        &raw mut event as usize,
        0,
        0,
    ];
    // SAFETY: the kernel reads one event.
    unsafe { sys::syscall(libc::SYS_epoll_ctl, arguments) };
}

/// Brings events into the order of the members; those that cannot be told apart by their data, into that of their bits.
fn sort(epoll: &Epoll, given: usize, count: usize) {
    let key = |event: &libc::epoll_event| {
        let (bits, data) = (event.events, event.u64);
        let at = epoll.all().iter().position(|place| place.get().data == data);
        (at.unwrap_or(usize::MAX), bits)
    };
    // SAFETY: the kernel has just written so many events there; they may stand anywhere.
    let events = unsafe { core::slice::from_raw_parts_mut(given as *mut libc::epoll_event, count) };
    events.sort_unstable_by_key(key);
}

/// A call has succeeded that may have changed what is registered.
#[inline]
pub fn follow(number: c_long, arguments: &[usize; 6], result: isize) {
    match number {
        libc::SYS_epoll_create | libc::SYS_epoll_create1 => change(|| begin(result as usize)),
        libc::SYS_epoll_ctl => {
            if let Some(epoll) = find(arguments[0]) {
                change(|| register(epoll, arguments));
            }
        }
        libc::SYS_close => forget(arguments[0]),
        libc::SYS_close_range => (arguments[0]..=arguments[1].min(u32::MAX as usize))
            .take(EPOLLS_MAX * POLLED_MAX)
            .for_each(forget),
        libc::SYS_dup => doubt(arguments[0]),
        libc::SYS_dup2 | libc::SYS_dup3 if arguments[0] != arguments[1] => {
            forget(arguments[1]);
            doubt(arguments[0]);
        }
        libc::SYS_fcntl if matches!(arguments[1] as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => doubt(arguments[0]),
        _ => {}
    }
}

fn begin(descriptor: usize) {
    // If there are too many, this one is not known.
    const TAKEN: u32 = u32::MAX;
    let take = |epoll: &&Epoll| epoll.name.compare_exchange(0, TAKEN, Relaxed, Relaxed).is_ok();
    if let Some(epoll) = EPOLLS.iter().find(take) {
        epoll.is_unknown.store(0, Relaxed);
        epoll.next.store(0, Relaxed);
        epoll.count.store(0, Relaxed);
        epoll.name.store(descriptor as u32 + 1, Relaxed);
    }
}

fn register(epoll: &Epoll, arguments: &[usize; 6]) {
    let fd = arguments[2] as i32;
    let known = epoll.position(fd);
    if arguments[1] as i32 == libc::EPOLL_CTL_DEL {
        if let Some(at) = known {
            epoll.remove(at);
        }
        return;
    }
    // SAFETY: the kernel has just read it there.
    let event = unsafe { (arguments[3] as *const libc::epoll_event).read_unaligned() };
    let member = Member {
        fd,
        events: event.events,
        data: event.u64,
        is_silent: false,
    };
    match known {
        Some(at) => epoll.members[at].set(member),
        None => epoll.add(member),
    }
}

/// Does anything have to do with it? Most descriptors are in no table.
pub fn is_known(descriptor: usize) -> bool {
    find(descriptor).is_some()
        || EPOLLS
            .iter()
            .any(|epoll| epoll.name.load(Relaxed) != 0 && epoll.position(descriptor as i32).is_some())
}

/// A descriptor is closed.
fn forget(descriptor: usize) {
    if !is_known(descriptor) {
        return;
    }
    change(|| {
        for epoll in EPOLLS.iter().filter(|epoll| epoll.name.load(Relaxed) != 0) {
            if epoll.name.load(Relaxed) == descriptor as u32 + 1 {
                epoll.name.store(0, Relaxed);
            } else if let Some(at) = epoll.position(descriptor as i32) {
                epoll.remove(at);
            }
        }
    });
}

/// There is another descriptor for the same: what is done by that, and whether this one is the last when it is closed, is not followed.
fn doubt(descriptor: usize) {
    if !is_known(descriptor) {
        return;
    }
    change(|| {
        for epoll in EPOLLS.iter().filter(|epoll| epoll.name.load(Relaxed) != 0) {
            if epoll.name.load(Relaxed) == descriptor as u32 + 1 || epoll.position(descriptor as i32).is_some() {
                epoll.is_unknown.store(1, Relaxed);
            }
        }
    });
}
