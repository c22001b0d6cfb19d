//! Access vectors of shared program elements: recorded for those that were chosen (method coop, `chosen.rs`), or kept to, by a recording of an attempt to
//! bring a failure back (`followed.rs`).
//!
//! Locks, conditions and their kin are elements as memory is. Which one an object is, the site of the program's call says; it is remembered for calls that name another one, such
//! as the mutex of a wait. Every operation on an object is an access: of one that acquires when it has it, of one that releases before it gives it up. A wait is two of each: of the
//! mutex and the condition when it begins, for whether a signal came before or after that is what lost wake-ups are about, and again when it is over. A signal is in the vector while
//! the element is locked, so that nobody whom it wakes is there before it.
mod chosen;
pub mod followed;
pub mod wakes;

pub use chosen::chooses;
pub use chosen::elements;
pub use chosen::forget;

use crate::control;
use crate::control::VectorUse;
use crate::local::Local;
use crate::parts;
use crate::sites;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use run_model::Op;
use runtime_abi::RunSettings;
use runtime_abi::vectors_file::NO_NAME;
use runtime_abi::vectors_file::UNNAMED_ELEMENT;

/// Maps what the run has of vectors, before there is a second thread.
pub fn open(settings: &RunSettings) {
    if settings.keep_to_vectors {
        followed::open();
        control::use_vectors(VectorUse::Followed);
    } else if settings.method == run_model::Method::Coop {
        chosen::open();
        control::use_vectors(VectorUse::Chosen);
        // What is perturbed is perturbed at accesses that nobody has chosen, too: there the program asks us, and they are no less its own.
        if settings.chaos_seed.is_none() {
            parts::choose_by(chosen::chooses);
        }
    }
}

/// A thread is about to be created: it has a name.
pub fn name_child(creator: &Local, child: &Local) {
    let nth = creator.vectors.children.get();
    creator.vectors.children.set(nth + 1);
    let name = match control::vector_use() {
        VectorUse::Followed => followed::child(creator.vectors.name.get(), nth),
        _ => NO_NAME,
    };
    child.vectors.name.set(name);
}

/// Objects whose element is known, by address; found by a hash. One that does not fit is no element.
struct Known {
    object: AtomicU64,
    element: AtomicU32,
}

const OBJECTS: usize = 1 << 14;
const PROBES: usize = 64;
static KNOWN: [Known; OBJECTS] = [const {
    Known {
        object: AtomicU64::new(0),
        element: AtomicU32::new(0),
    }
}; OBJECTS];

fn places(object: u64) -> impl Iterator<Item = &'static Known> {
    let first = (object.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
    (0..PROBES).map(move |probe| &KNOWN[(first + probe) % OBJECTS])
}

/// Relaxed throughout: an object's first operation happens before anybody else can use it, or orders itself.
fn learn(object: u64, element: u32) {
    for place in places(object) {
        let found = place.object.load(Relaxed);
        let is_mine =
            found == object || (found == 0 && place.object.compare_exchange(0, object, Relaxed, Relaxed).is_ok());
        if is_mine || place.object.load(Relaxed) == object {
            if place.element.load(Relaxed) != element {
                place.element.store(element, Relaxed);
            }
            return;
        }
    }
}

/// 0: not known.
fn element_of(object: u64) -> u32 {
    places(object)
        .take_while(|place| place.object.load(Relaxed) != 0)
        .find(|place| place.object.load(Relaxed) == object)
        .map_or(0, |place| place.element.load(Relaxed))
}

/// Recording a part: is what the code of this site accesses nobody's business?
///
/// # Safety
/// `site` is a record of a site table.
#[inline]
pub unsafe fn leaves_out(site: *const u8) -> bool {
    if control::vector_use() != VectorUse::Chosen {
        return false;
    }
    // SAFETY: the caller promises that `site` is a record of a site table.
    let element = unsafe { sites::element(site) };
    let element = if element == 0 { UNNAMED_ELEMENT } else { element };
    !chosen::chooses(element)
}

impl Local {
    /// The element of an object that an operation is done to.
    fn element_at(&self, op: Op, object: u64) -> u32 {
        // A wait's site names its condition.
        if op != Op::CondRelease {
            let element = sites::lock_element(self.slot.site.load(Relaxed));
            if element != 0 {
                learn(object, element);
                return element;
            }
        }
        element_of(object)
    }

    /// Recording a part: is the order of what is done to this object nobody's business?
    #[inline]
    pub fn ignores(&self, op: Op, object: u64) -> bool {
        control::vector_use() == VectorUse::Chosen
            && op.is_in_vectors()
            && !chosen::chooses(self.element_at(op, object))
    }

    /// The same of a wait for `condition`, which gives up `mutex` and has it again.
    pub fn ignores_wait(&self, condition: u64, mutex: u64) -> bool {
        self.ignores(Op::CondWake, condition) && self.ignores(Op::CondRelease, mutex)
    }

    /// An operation begins. Where vectors are kept to, it waits for its turn.
    #[inline]
    pub fn enter_vectors(&self, op: Op, object: u64) {
        if control::vector_use() != VectorUse::None && op.is_in_vectors() {
            let condition = match op {
                // A wait's site names its condition.
                Op::CondRelease => sites::lock_element(self.slot.site.load(Relaxed)),
                _ => 0,
            };
            self.enter([self.element_at(op, object), condition]);
        }
    }

    /// An operation that releases something, logged before `real` does it. What wakes others is in vectors as long as that takes: they cannot be there before it, nor
    /// begin to wait behind it and be woken all the same.
    #[inline]
    pub fn touch_and<R>(&self, op: Op, object: u64, real: impl FnOnce() -> R) -> R {
        let wakes = matches!(op, Op::CondSignal | Op::CondBroadcast | Op::SemPost);
        match control::vector_use() {
            VectorUse::Chosen if wakes => {
                self.access.touch(op, object, 0);
                self.wake_in_vectors(real)
            }
            VectorUse::Followed if wakes => {
                wakes::wake(object, op);
                self.touch(op, object, 0);
                real()
            }
            _ => {
                self.touch(op, object, 0);
                real()
            }
        }
    }

    fn wake_in_vectors<R>(&self, real: impl FnOnce() -> R) -> R {
        let [element, _] = self.vectors.under_way.take();
        if element == 0 {
            return real();
        }
        let mut real = Some(real);
        let mut done = None;
        self.access.perform_in_vector(element, None, &mut || {
            if let Some(real) = real.take() {
                done = Some(real());
            }
        });
        match done {
            Some(done) => done,
            None => unreachable!("an access happens once"),
        }
    }

    /// A wait is over, or about to be: it is an operation on the condition, and one on the mutex.
    pub fn enter_vectors_of_wake(&self, condition: u64, mutex: u64) {
        if control::vector_use() != VectorUse::None {
            self.enter([self.element_at(Op::CondWake, condition), element_of(mutex)]);
        }
    }

    fn enter(&self, elements: [u32; 2]) {
        match control::vector_use() {
            VectorUse::None => {}
            VectorUse::Chosen => self
                .vectors
                .under_way
                .set(elements.map(|element| if chosen::chooses(element) { element } else { 0 })),
            VectorUse::Followed => {
                self.vectors.under_way.set(elements);
                elements.iter().for_each(|element| self.await_turn(*element));
            }
        }
    }

    /// The operation under way, if there is one, is over.
    #[inline]
    pub fn leave_vectors(&self) {
        if control::vector_use() != VectorUse::None {
            self.leave();
        }
    }

    fn leave(&self) {
        for element in self
            .vectors
            .under_way
            .take()
            .into_iter()
            .filter(|element| *element != 0)
        {
            match control::vector_use() {
                VectorUse::Chosen => self.access.perform_in_vector(element, None, &mut || ()),
                _ => self.pass_turn(element),
            }
        }
    }

    /// Will a wait for this condition end when its turn comes, and not before? So it is for conditions that have, or had, a vector.
    pub fn wakes_in_turn(&self, condition: u64) -> bool {
        control::vector_use() == VectorUse::Followed && followed::had(self.element_at(Op::CondWake, condition))
    }
}
