//! Calls that ask for several descriptors at once what could be done with them, and wait until there is something: `poll`, `select`, `epoll_wait` and their kin. Where
//! all of what they ask for is state of the process's own, or nothing at all, a hybrid schedule orders them, with call and return (`ordered.rs`).
//!
//! *Recorded*, such a call takes the objects of everything that it asks for, in the order of their addresses, and asks without a wait. If there is nothing to tell, and its time is not over, it gives
//! them back, waits without them, and tries again. Its return is a use of all of them. *Enforced*, it asks once, without a wait, when its turn has come: it finds what it found, nothing included.
//!
//! Linux writes the time that is left into the timeout of some of them. When they are ordered, that is nothing if the time is over, and otherwise what it was.
use crate::calls::epolls;
use crate::calls::local_state;
use crate::calls::local_state::Whose;
use crate::calls::signals::signals;
use crate::local::Local;
use crate::sys;
use crate::sys::PUT_OFF;
use crate::this_machine::ThisMachine;
use access_protocol::HeldObject;
use core::cell::Cell;
use core::ffi::c_long;
use core::sync::atomic::AtomicU64;
use run_model::Kind;
use run_model::Op;

/// Calls that ask for more are not ordered.
pub const POLLED_MAX: usize = 64;
/// What they ask for, the table of epolls, and signals.
const OBJECTS_MAX: usize = POLLED_MAX + 2;
/// Signals may come between a look and the wait for them, which then ends by itself; and so long may it take to see that others have changed what is asked for.
const LOOK_AGAIN_NS: u64 = 20_000_000;
/// Descriptors in the sets of `select`.
const SET_BITS: usize = 1024;
const SET_WORDS: usize = SET_BITS / 64;
type Sets = [[u64; SET_WORDS]; 3];

pub fn is_poll(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
    )
}

/// Does the call use several objects: does it ask, or take from epolls what they are asked?
fn uses_several(number: c_long, arguments: &[usize; 6]) -> bool {
    is_poll(number) || number == libc::SYS_close && epolls::is_known(arguments[0])
}

fn is_select(number: c_long) -> bool {
    matches!(number, libc::SYS_select | libc::SYS_pselect6)
}

fn is_epoll(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2
    )
}

/// How long the call may wait, and where that is said.
enum Timeout {
    /// It never waits.
    None,
    Milliseconds(usize),
    /// Seconds, and parts of a second of so many nanoseconds.
    At(usize, u64),
}

fn timeout(number: c_long) -> Timeout {
    match number {
        libc::SYS_poll => Timeout::Milliseconds(2),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Timeout::Milliseconds(3),
        libc::SYS_ppoll => Timeout::At(2, 1),
        libc::SYS_epoll_pwait2 => Timeout::At(3, 1),
        libc::SYS_select => Timeout::At(4, 1000),
        libc::SYS_pselect6 => Timeout::At(4, 1),
        _ => Timeout::None,
    }
}

/// In nanoseconds; `None`: for ever. What the kernel would refuse is no time at all: it refuses it when it is asked.
fn time_to_wait(number: c_long, arguments: &[usize; 6]) -> Option<u64> {
    match timeout(number) {
        Timeout::None => Some(0),
        Timeout::Milliseconds(at) => match arguments[at] as i32 {
            ..0 => None,
            time => Some(time as u64 * 1_000_000),
        },
        Timeout::At(at, _) if arguments[at] == 0 => None,
        Timeout::At(at, unit) => {
            let mut time = [0u64; 2];
            sys::copy_own(arguments[at], &raw mut time as usize, size_of_val(&time));
            Some(
                time[0]
                    .saturating_mul(1_000_000_000)
                    .saturating_add(time[1].saturating_mul(unit)),
            )
        }
    }
}

/// Is what the call says of its time something that the kernel refuses?
fn is_refused(number: c_long, arguments: &[usize; 6]) -> bool {
    let Timeout::At(at, unit) = timeout(number) else {
        return false;
    };
    let mut time = [0i64; 2];
    let is_given = arguments[at] != 0;
    let is_there = is_given && sys::copy_own(arguments[at], &raw mut time as usize, 16) == 16;
    // `select` takes more than a million of its units.
    is_given && (!is_there || time[0] < 0 || time[1] < 0 || unit == 1 && time[1] >= 1_000_000_000)
}

/// The mask of signals during the wait, and its size.
fn mask(number: c_long, arguments: &[usize; 6]) -> [usize; 2] {
    match number {
        libc::SYS_ppoll => [arguments[3], arguments[4]],
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => [arguments[4], arguments[5]],
        libc::SYS_pselect6 if arguments[5] != 0 => {
            let mut mask = [0; 2];
            sys::copy_own(arguments[5], &raw mut mask as usize, size_of_val(&mask));
            mask
        }
        _ => [0, 0],
    }
}

/// Recording: a call whose order is kept.
pub struct PolledCall {
    number: c_long,
    /// In rising order, each once.
    objects: [Cell<u64>; OBJECTS_MAX],
    count: Cell<usize>,
    /// Those that it has while it is made; its return is not recorded yet.
    held: [Cell<Option<HeldObject<ThisMachine>>>; OBJECTS_MAX],
    /// When its time is over.
    until_ns: Option<u64>,
    /// Changes of epolls when the objects were found.
    epochs: Cell<u32>,
    /// It came to ask for something of the outside, and has no place.
    is_given_up: Cell<bool>,
}

impl PolledCall {
    /// `None`: it asks for something of the outside, or for too much.
    fn new(number: c_long, arguments: &[usize; 6], thread: u32) -> Option<PolledCall> {
        let wait_ns = time_to_wait(number, arguments);
        let call = PolledCall {
            number,
            objects: [const { Cell::new(0) }; OBJECTS_MAX],
            count: Cell::new(0),
            held: [const { Cell::new(None) }; OBJECTS_MAX],
            until_ns: wait_ns.map(|wait| sys::now_ns().saturating_add(wait)),
            epochs: Cell::new(0),
            is_given_up: Cell::new(false),
        };
        let is_known = !is_refused(number, arguments) && call.find_objects(arguments).is_some();
        if is_known && call.count.get() == 0 && wait_ns.is_some() {
            // It does nothing but let time pass.
            call.add(object_of_thread(thread))?;
        }
        (is_known && call.count.get() != 0).then_some(call)
    }

    fn find_objects(&self, arguments: &[usize; 6]) -> Option<()> {
        self.count.set(0);
        match self.number {
            number if is_epoll(number) => {
                self.epochs.set(epolls::changes());
                self.add(epolls::object())?;
                let members = epolls::members(arguments[0], arguments[2])?;
                members.all().try_for_each(|member| self.add_descriptor(member.fd))
            }
            libc::SYS_close => {
                self.add(epolls::object())?;
                match local_state::whose(arguments[0]) {
                    Whose::Own(object) => self.add(object),
                    _ => Some(()),
                }
            }
            number if is_select(number) => {
                let sets = sets(arguments)?;
                (0..SET_BITS)
                    .filter(|bit| sets.iter().any(|set| set[bit / 64] >> (bit % 64) & 1 != 0))
                    .try_for_each(|bit| self.add_descriptor(bit as i32))
            }
            _ => {
                let asked = Asked::of(arguments)?;
                let mut all = asked.all().iter().filter(|asked| asked.fd >= 0);
                all.try_for_each(|asked| self.add_descriptor(asked.fd))
            }
        }
    }

    fn add_descriptor(&self, descriptor: i32) -> Option<()> {
        match local_state::whose(descriptor as usize) {
            Whose::Own(object) => self.add(object),
            // It is always ready.
            Whose::File => Some(()),
            Whose::Outside => None,
        }
    }

    fn add(&self, object: u64) -> Option<()> {
        let count = self.count.get();
        let known = &self.objects[..count];
        let at = known.iter().position(|known| known.get() >= object).unwrap_or(count);
        if at < count && known[at].get() == object {
            return Some(());
        }
        if count == OBJECTS_MAX {
            return None;
        }
        for behind in (at..count).rev() {
            self.objects[behind + 1].set(self.objects[behind].get());
        }
        self.objects[at].set(object);
        self.count.set(count + 1);
        Some(())
    }

    fn all(&self) -> impl Iterator<Item = (u64, &Cell<Option<HeldObject<ThisMachine>>>)> {
        let objects = self.objects.iter().map(Cell::get).zip(&self.held);
        objects.take(self.count.get())
    }

    /// Waits until there may be something to tell, not long.
    fn wait(&self, arguments: &[usize; 6]) -> isize {
        let left = self
            .until_ns
            .map_or(u64::MAX, |until| until.saturating_sub(sys::now_ns()));
        let left = left.min(LOOK_AGAIN_NS);
        let time = [0, left];
        let time = time.as_ptr() as usize;
        if is_select(self.number) {
            let Some(sets) = sets(arguments) else {
                return 0;
            };
            let [read, written, other] = sets.each_ref().map(|set| set.as_ptr() as usize);
            let mask = if self.number == libc::SYS_pselect6 {
                arguments[5]
            } else {
                0
            };
            // SAFETY: sets of ours, which are large enough, and what the program gives to the kernel.
            return unsafe {
                sys::syscall(
                    libc::SYS_pselect6,
                    [arguments[0].min(SET_BITS), read, written, other, time, mask],
                )
            };
        }
        let asked = match is_epoll(self.number) {
            true => epolls::asked(arguments[0]),
            false => Asked::of(arguments),
        };
        let Some(asked) = asked else {
            return 0;
        };
        let [mask, bytes] = mask(self.number, arguments);
        let asked = [asked.all().as_ptr() as usize, asked.all().len(), time, mask, bytes, 0];
        // SAFETY: a copy of ours, and what the program gives to the kernel.
        unsafe { sys::syscall(libc::SYS_ppoll, asked) }
    }
}

/// What is asked for by `poll`: a copy.
pub struct Asked {
    all: [libc::pollfd; POLLED_MAX],
    count: usize,
}

impl Asked {
    pub fn none() -> Asked {
        const NOTHING: libc::pollfd = libc::pollfd {
            fd: -1,
            events: 0,
            revents: 0,
        };
        Asked {
            all: [NOTHING; POLLED_MAX],
            count: 0,
        }
    }

    fn of(arguments: &[usize; 6]) -> Option<Asked> {
        let (given, count) = (arguments[0], arguments[1] as u32 as usize);
        let mut asked = Asked::none();
        let bytes = count.checked_mul(size_of::<libc::pollfd>())?;
        let is_there = count <= POLLED_MAX
            && (count == 0 || sys::copy_own(given, asked.all.as_mut_ptr() as usize, bytes) == bytes);
        asked.count = count;
        is_there.then_some(asked)
    }

    /// If there is room.
    pub fn add(&mut self, fd: i32, events: i16) {
        if let Some(place) = self.all.get_mut(self.count) {
            (place.fd, place.events) = (fd, events);
            self.count += 1;
        }
    }

    pub fn all(&self) -> &[libc::pollfd] {
        &self.all[..self.count]
    }

    /// Asks without a wait.
    pub fn ask(&mut self) -> isize {
        // SAFETY: the kernel reads and writes as many as there are.
        unsafe { sys::syscall(libc::SYS_poll, [self.all.as_mut_ptr() as usize, self.count, 0, 0, 0, 0]) }
    }
}

/// What `select` is asked for: copies. `None`: too much, or it is not there.
fn sets(arguments: &[usize; 6]) -> Option<Sets> {
    let count = arguments[0];
    let bytes = count.div_ceil(64).checked_mul(8)?;
    let mut sets: Sets = [[0; SET_WORDS]; 3];
    if count > SET_BITS {
        return None;
    }
    for (set, given) in sets.iter_mut().zip(&arguments[1..4]).filter(|(_, given)| **given != 0) {
        if sys::copy_own(*given, set.as_mut_ptr() as usize, bytes) != bytes {
            return None;
        }
        for (index, word) in set.iter_mut().enumerate() {
            // Those behind the last one are not asked for.
            let bits = count.saturating_sub(index * 64).min(64);
            *word &= if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        }
    }
    Some(sets)
}

/// Makes the call without a wait. `is_last`: whatever comes of it, the program is told.
pub fn at_once(
    number: c_long,
    arguments: &[usize; 6],
    is_last: bool,
    real: impl FnOnce(&[usize; 6]) -> isize,
) -> isize {
    let no_time = [0u64; 2];
    let mut now = *arguments;
    match timeout(number) {
        Timeout::None => {}
        Timeout::Milliseconds(at) => now[at] = 0,
        Timeout::At(at, _) => now[at] = no_time.as_ptr() as usize,
    }
    let result = if is_epoll(number) {
        epolls::take(&now, real)
    } else if is_select(number) {
        select_at_once(&now, is_last, real)
    } else {
        real(&now)
    };
    if let (0, true, Timeout::At(at, _)) = (result, is_last, timeout(number))
        && !matches!(number, libc::SYS_epoll_pwait2)
        && arguments[at] != 0
    {
        sys::copy_own(no_time.as_ptr() as usize, arguments[at], size_of_val(&no_time));
    }
    result
}

/// Live: a signal ended the call when it was learned. If that can only come by the call's mask, it is let in; who sent it has had its turn, or is somebody outside.
pub fn let_signal_in(number: c_long, arguments: &[usize; 6]) {
    /// Whoever is outside need not send it again.
    const WAIT_SECONDS: u64 = 1;
    let [mask, bytes] = mask(number, arguments);
    if mask != 0 {
        let time = [WAIT_SECONDS, 0];
        // SAFETY: asks for nothing; a time of ours, and the mask that the program gives to the kernel.
        unsafe { sys::syscall(libc::SYS_ppoll, [0, 0, time.as_ptr() as usize, mask, bytes, 0]) };
    }
}

/// The sets stay as they are as long as the answer is not for the program.
fn select_at_once(arguments: &[usize; 6], is_last: bool, real: impl FnOnce(&[usize; 6]) -> isize) -> isize {
    let Some(sets) = sets(arguments) else {
        return real(arguments);
    };
    let mut now = *arguments;
    for (place, set) in now[1..4].iter_mut().zip(&sets).filter(|(place, _)| **place != 0) {
        *place = set.as_ptr() as usize;
    }
    let result = real(&now);
    if result > 0 || result == 0 && is_last {
        let bytes = arguments[0].div_ceil(64) * 8;
        for (given, set) in arguments[1..4].iter().zip(&sets).filter(|(given, _)| **given != 0) {
            sys::copy_own(set.as_ptr() as usize, *given, bytes);
        }
    }
    result
}

/// What stands for the time of a thread.
fn object_of_thread(thread: u32) -> u64 {
    static THREADS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
    &THREADS[thread as usize % THREADS.len()] as *const AtomicU64 as u64
}

impl Local {
    /// Recording: a call that uses several objects is issued, which is an event. `Err`: it is no such call.
    pub fn issue_poll(&self, number: c_long, arguments: &[usize; 6]) -> Result<Option<PolledCall>, ()> {
        if self.inside_event.get() || !uses_several(number, arguments) || !self.may_order(number) {
            return Err(());
        }
        let call = PolledCall::new(number, arguments, self.index);
        match &call {
            Some(call) => {
                let object = call.objects[0].get();
                self.begin(Op::CallIssue, object);
                self.touch(Op::CallIssue, object, number + 1);
            }
            None => self.complete(),
        }
        Ok(call)
    }

    /// Recording: makes the call, and holds its objects until `note_poll`. It may have to be made again, if it is put off.
    pub fn make_polled(
        &self,
        call: &PolledCall,
        arguments: &[usize; 6],
        real: &mut impl FnMut(&[usize; 6]) -> isize,
    ) -> isize {
        loop {
            if is_epoll(call.number) && call.find_objects(arguments).is_none() {
                // Somebody has added something of the outside.
                call.is_given_up.set(true);
                return self.blocking(|| real(arguments));
            }
            for (object, held) in call.all() {
                held.set(Some(self.access.hold_object(object)));
            }
            if is_epoll(call.number) && epolls::changes() != call.epochs.get() {
                self.give_back(call);
                continue;
            }
            let is_last = call.until_ns.is_some_and(|until| until <= sys::now_ns());
            let result = at_once(call.number, arguments, is_last, &mut *real);
            let is_interrupted = result == -libc::EINTR as isize;
            if result != PUT_OFF && !is_interrupted && (result != 0 || is_last) {
                return result;
            }
            self.give_back(call);
            if is_interrupted {
                return result;
            }
            if result == PUT_OFF || self.inputs.pending.count.get() != 0 {
                return PUT_OFF;
            }
            let found = self.blocking(|| call.wait(arguments));
            if found == -libc::EINTR as isize {
                return found;
            }
        }
    }

    fn give_back(&self, call: &PolledCall) {
        for held in call.all().filter_map(|(_, held)| held.take()) {
            self.access.give_object_back(held);
        }
    }

    /// Recording: the call has been made, and its event is about to be complete.
    pub fn note_poll(&self, call: Option<&PolledCall>, result: isize) {
        let Some(call) = call.filter(|call| !call.is_given_up.get()) else {
            return;
        };
        self.before_release();
        if result == -libc::EINTR as isize {
            // Somebody may have sent a signal, who comes before it then; and others who send one come behind it. If there are too many objects, it is as if somebody outside did.
            let _ = call.add(signals());
        }
        for (object, held) in call.all() {
            let held = held.take().unwrap_or_else(|| self.access.hold_object(object));
            let previous = self.access.user_before(&held);
            self.record(
                Kind::Sync,
                Op::CallReturn,
                0,
                object,
                result as i64,
                previous.as_slice(),
            );
            self.access.release_object(held);
        }
    }
}
