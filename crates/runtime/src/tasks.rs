//! Tasks of OpenMP: which are waiting, who takes which, and who waits for whose end.
//!
//! libomp hands tasks to threads by queues of its own, in an order that nobody records. So it is told to execute each task where it is
//! told to (`KMP_TASKING=0`), and the tasks wait here instead. Every change of what is here is one event of one object (`interpose/tasks.rs`),
//! and depends on nothing but what is here: since these events come in the same order again, each thread takes the same task.
//!
//! As libomp does, a thread that waits executes tasks: those that it made itself, the newest first, then the oldest of others. One that
//! waits inside a task takes descendants of that task only. Where more than [`QUEUED_MAX`] tasks wait, new ones are executed at once.
use crate::sys;
use core::ffi::c_void;

/// Tasks of a team that wait; libomp's queues have as many for each thread at first.
const QUEUED_MAX: u32 = 256;

/// How many of a kind there may be. Their memory is the kernel's until it is used.
const SLOTS: u32 = 1 << 18;

/// A task, a team or a group, by its number; 0 is none.
pub type Number = u32;

/// Numbered things of one kind, in memory of ours: it is used inside events, where the program's allocator is not to be called.
struct Pool<T> {
    slots: *mut T,
    used: u32,
    /// Given back, one behind the other: the number of the next is in `links`.
    free: Number,
    links: *mut Number,
}

impl<T: Copy> Pool<T> {
    const fn new() -> Pool<T> {
        Pool {
            slots: core::ptr::null_mut(),
            used: 0,
            free: 0,
            links: core::ptr::null_mut(),
        }
    }

    /// None if there are too many.
    fn add(&mut self, value: T) -> Option<Number> {
        if self.slots.is_null() {
            self.slots = sys::map_anywhere(SLOTS as usize * size_of::<T>()) as *mut T;
            self.links = sys::map_anywhere(SLOTS as usize * size_of::<Number>()) as *mut Number;
            // Number 0 is none.
            self.used = 1;
        }
        let number = if self.free != 0 {
            let number = self.free;
            // SAFETY: numbers that were given back are below `used`, and so below SLOTS.
            self.free = unsafe { self.links.add(number as usize).read() };
            number
        } else if self.used < SLOTS {
            self.used += 1;
            self.used - 1
        } else {
            return None;
        };
        // SAFETY: below SLOTS, for which there is memory.
        unsafe { self.slots.add(number as usize).write(value) };
        Some(number)
    }

    fn remove(&mut self, number: Number) {
        // SAFETY: `add` has given the number out.
        unsafe { self.links.add(number as usize).write(self.free) };
        self.free = number;
    }

    fn at(&mut self, number: Number) -> &mut T {
        debug_assert!(number != 0 && number < self.used);
        // SAFETY: `add` has given the number out, and has written the value.
        unsafe { &mut *self.slots.add(number as usize) }
    }
}

/// A task as the program made it, or the one that a thread of a team begins with.
#[derive(Clone, Copy)]
pub struct Task {
    /// libomp's; null for the one that a thread begins with.
    pub task: *mut c_void,
    pub place: *const c_void,
    pub group: Number,
    parent: Number,
    team: Number,
    creator: u32,
    /// Children that are not complete.
    children: u32,
    /// Itself, and children that are still here.
    references: u32,
    next_queued: Number,
    /// What it depends on, and what its children do: first and last of each list.
    depends: Number,
    first: Number,
    last: Number,
    /// What the thread that executes it goes back to.
    pub resumes: Place,
    /// The event that completes it, if that is not its end.
    event: *mut c_void,
    is_over: bool,
}

/// Where a thread is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    pub team: Number,
    pub task: Number,
    pub group: Number,
}

#[derive(Clone, Copy)]
struct Team {
    threads: u32,
    /// Threads that are at the barrier, and how many barriers there were.
    arrived: u32,
    barriers: u64,
    /// Tasks that are not complete, and those of them that wait.
    incomplete: u32,
    queued: u32,
    first: Number,
    last: Number,
}

#[derive(Clone, Copy)]
struct Group {
    outer: Number,
    incomplete: u32,
}

/// What the compiler passes: an address, and how it is used.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Dependence {
    address: usize,
    bytes: usize,
    kind: u8,
}

impl Dependence {
    const IN: u8 = 1;
    const IN_OUT_SET: u8 = 8;
    const ALL_MEMORY: u8 = 0x80;

    /// Does the later of two have to wait for the earlier one?
    fn orders(&self, other: &Dependence) -> bool {
        let everything = self.kind & Dependence::ALL_MEMORY != 0 || other.kind & Dependence::ALL_MEMORY != 0;
        let alike = self.kind == other.kind && matches!(self.kind, Dependence::IN | Dependence::IN_OUT_SET);
        everything || (self.address == other.address && !alike)
    }
}

#[derive(Clone, Copy)]
struct Dependency {
    what: Dependence,
    task: Number,
    /// Behind it among those of all children of a task, and of the same child.
    next: Number,
    next_of_task: Number,
}

/// What a thread waits for.
#[derive(Clone, Copy)]
pub enum Until<'a> {
    /// All children of its task are complete.
    Children,
    /// All of the group are.
    Group,
    /// All threads of its team have arrived at this barrier, and no task is left.
    Barrier(u64),
    /// No child of its task is left on which these depend.
    Dependences([&'a [Dependence]; 2]),
    /// Nothing: it may execute one task.
    Once,
}

pub enum Step {
    Done,
    Run(Number),
    /// Others have to do something first.
    Nothing,
}

/// How a new task is executed.
pub enum Made {
    /// Later, by whoever takes it.
    Queued,
    /// At once, by who made it; 0 if it has no number.
    Now(Number),
}

pub struct Tasks {
    tasks: Pool<Task>,
    teams: Pool<Team>,
    groups: Pool<Group>,
    dependencies: Pool<Dependency>,
    /// How many were given out.
    events: usize,
}

impl Tasks {
    pub const fn new() -> Tasks {
        Tasks {
            tasks: Pool::new(),
            teams: Pool::new(),
            groups: Pool::new(),
            dependencies: Pool::new(),
            events: 0,
        }
    }

    pub fn task(&mut self, number: Number) -> &mut Task {
        self.tasks.at(number)
    }

    /// A team that is about to begin.
    pub fn fork(&mut self) -> Number {
        let team = Team {
            threads: 0,
            arrived: 0,
            barriers: 0,
            incomplete: 0,
            queued: 0,
            first: 0,
            last: 0,
        };
        self.teams.add(team).unwrap_or(0)
    }

    pub fn join(&mut self, team: Number) {
        self.teams.remove(team);
    }

    /// A thread begins its part of the team, of so many. Where it is now, if there is room for its task.
    pub fn begin(&mut self, team: Number, threads: u32, from: Place, thread: u32) -> Place {
        self.teams.at(team).threads = threads;
        let task = Task {
            task: core::ptr::null_mut(),
            place: core::ptr::null(),
            group: 0,
            parent: 0,
            team,
            creator: thread,
            children: 0,
            references: 1,
            next_queued: 0,
            depends: 0,
            first: 0,
            last: 0,
            resumes: from,
            event: core::ptr::null_mut(),
            is_over: false,
        };
        let task = self.tasks.add(task).unwrap_or(0);
        Place { team, task, group: 0 }
    }

    /// It ends it. Where it goes back to.
    pub fn end(&mut self, place: Place) -> Place {
        let back = self.tasks.at(place.task).resumes;
        self.release(place.task);
        back
    }

    /// A new task of the thread that is at `place`.
    #[expect(
        clippy::too_many_arguments,
        reason = "what libomp is told about a task, and who tells it"
    )]
    pub fn add(
        &mut self,
        place: Place,
        thread: u32,
        task: *mut c_void,
        location: *const c_void,
        event: *mut c_void,
        dependences: [&[Dependence]; 2],
        at_once: bool,
    ) -> Made {
        let new = Task {
            task,
            place: location,
            group: place.group,
            parent: place.task,
            team: place.team,
            creator: thread,
            children: 0,
            references: 1,
            next_queued: 0,
            depends: 0,
            first: 0,
            last: 0,
            resumes: place,
            event,
            is_over: false,
        };
        let Some(number) = self.tasks.add(new) else {
            return Made::Now(0);
        };
        let parent = self.tasks.at(place.task);
        parent.children += 1;
        parent.references += 1;
        if place.group != 0 {
            self.groups.at(place.group).incomplete += 1;
        }
        self.teams.at(place.team).incomplete += 1;
        for what in dependences.into_iter().flatten() {
            self.add_dependency(place.task, number, *what);
        }
        let is_full = self.teams.at(place.team).queued >= QUEUED_MAX;
        if at_once || (is_full && self.is_ready(number)) {
            return Made::Now(number);
        }
        let team = self.teams.at(place.team);
        let before = core::mem::replace(&mut team.last, number);
        team.queued += 1;
        if before == 0 {
            team.first = number;
        } else {
            self.tasks.at(before).next_queued = number;
        }
        Made::Queued
    }

    fn add_dependency(&mut self, parent: Number, task: Number, what: Dependence) {
        let next_of_task = self.tasks.at(task).depends;
        let dependency = Dependency {
            what,
            task,
            next: 0,
            next_of_task,
        };
        // Without room the order is lost, as without the clause.
        let Some(number) = self.dependencies.add(dependency) else {
            return;
        };
        self.tasks.at(task).depends = number;
        let of = self.tasks.at(parent);
        let before = core::mem::replace(&mut of.last, number);
        if before == 0 {
            of.first = number;
        } else {
            self.dependencies.at(before).next = number;
        }
    }

    /// Is no older child of the same task left on which it depends?
    fn is_ready(&mut self, task: Number) -> bool {
        let Task { parent, depends, .. } = *self.tasks.at(task);
        let mut mine = depends;
        while mine != 0 {
            let my = *self.dependencies.at(mine);
            if self.is_ordered_after_some(parent, task, &my.what) {
                return false;
            }
            mine = my.next_of_task;
        }
        true
    }

    /// Does something that `what` is ordered after belong to a child of `parent` that is older than `task`?
    fn is_ordered_after_some(&mut self, parent: Number, task: Number, what: &Dependence) -> bool {
        let mut other = self.tasks.at(parent).first;
        while other != 0 {
            let theirs = *self.dependencies.at(other);
            if theirs.task == task {
                return false;
            }
            if theirs.what.orders(what) {
                return true;
            }
            other = theirs.next;
        }
        false
    }

    /// A thread comes to the team's next barrier. Its number.
    pub fn arrive(&mut self, place: Place) -> u64 {
        let team = self.teams.at(place.team);
        team.arrived += 1;
        team.barriers
    }

    /// What a thread at `place` does next while it waits.
    pub fn step(&mut self, place: Place, thread: u32, until: Until<'_>) -> Step {
        let done = match until {
            Until::Children => self.tasks.at(place.task).children == 0,
            Until::Group => place.group == 0 || self.groups.at(place.group).incomplete == 0,
            Until::Barrier(barrier) => {
                let team = self.teams.at(place.team);
                if team.barriers == barrier && team.arrived == team.threads && team.incomplete == 0 {
                    team.barriers += 1;
                    team.arrived = 0;
                }
                team.barriers != barrier
            }
            Until::Dependences(lists) => !lists
                .into_iter()
                .flatten()
                .any(|what| self.is_ordered_after_some(place.task, 0, what)),
            Until::Once => false,
        };
        if done {
            return Step::Done;
        }
        match (self.take(place, thread), until) {
            (Some(task), _) => Step::Run(task),
            (None, Until::Once) => Step::Done,
            (None, _) => Step::Nothing,
        }
    }

    fn take(&mut self, place: Place, thread: u32) -> Option<Number> {
        let inside = !self.tasks.at(place.task).task.is_null();
        let (mut chosen, mut before_chosen) = (0, 0);
        let (mut at, mut before) = (self.teams.at(place.team).first, 0);
        while at != 0 {
            let task = *self.tasks.at(at);
            let fits = (!inside || self.descends(at, place.task)) && self.is_ready(at);
            // The newest of its own, else the oldest.
            if fits && (task.creator == thread || chosen == 0) {
                (chosen, before_chosen) = (at, before);
            }
            (before, at) = (at, task.next_queued);
        }
        if chosen == 0 {
            return None;
        }
        let next = core::mem::replace(&mut self.tasks.at(chosen).next_queued, 0);
        let team = self.teams.at(place.team);
        team.queued -= 1;
        if team.last == chosen {
            team.last = before_chosen;
        }
        if before_chosen == 0 {
            team.first = next;
        } else {
            self.tasks.at(before_chosen).next_queued = next;
        }
        self.tasks.at(chosen).resumes = place;
        Some(chosen)
    }

    fn descends(&mut self, task: Number, from: Number) -> bool {
        let mut at = task;
        while at != 0 && at != from {
            at = self.tasks.at(at).parent;
        }
        at == from
    }

    /// A task has been executed. It is complete, unless an event is to complete it.
    pub fn finish(&mut self, task: Number) {
        let it = self.tasks.at(task);
        it.is_over = true;
        if it.event.is_null() {
            self.complete(task);
        }
    }

    /// An event that will complete a task: no address of libomp's, for these are even.
    pub fn new_event(&mut self) -> *mut c_void {
        self.events += 1;
        (2 * self.events + 1) as *mut c_void
    }

    pub fn is_event(event: *mut c_void) -> bool {
        event as usize % 2 == 1
    }

    /// The event of some task has come.
    pub fn fulfil(&mut self, event: *mut c_void) {
        let found = (1..self.tasks.used).find(|&number| {
            let task = self.tasks.at(number);
            task.event == event && task.references != 0
        });
        if let Some(number) = found {
            let task = self.tasks.at(number);
            task.event = core::ptr::null_mut();
            if task.is_over {
                self.complete(number);
            }
        }
    }

    fn complete(&mut self, number: Number) {
        let Task {
            parent,
            group,
            team,
            depends,
            ..
        } = *self.tasks.at(number);
        self.tasks.at(parent).children -= 1;
        if group != 0 {
            self.groups.at(group).incomplete -= 1;
        }
        self.teams.at(team).incomplete -= 1;
        if depends != 0 {
            self.forget_dependencies(parent, number);
        }
        self.release(number);
    }

    fn forget_dependencies(&mut self, parent: Number, task: Number) {
        let (mut at, mut before) = (self.tasks.at(parent).first, 0);
        while at != 0 {
            let it = *self.dependencies.at(at);
            if it.task == task {
                if before == 0 {
                    self.tasks.at(parent).first = it.next;
                } else {
                    self.dependencies.at(before).next = it.next;
                }
                self.dependencies.remove(at);
            } else {
                before = at;
            }
            at = it.next;
        }
        self.tasks.at(parent).last = before;
    }

    /// One reference less; without any, the task is forgotten.
    fn release(&mut self, number: Number) {
        let mut at = number;
        while at != 0 {
            let task = self.tasks.at(at);
            task.references -= 1;
            if task.references != 0 {
                return;
            }
            let parent = task.parent;
            self.tasks.remove(at);
            at = parent;
        }
    }

    pub fn open_group(&mut self, outer: Number) -> Number {
        self.groups.add(Group { outer, incomplete: 0 }).unwrap_or(0)
    }

    /// Where the thread goes on; the group's tasks are complete.
    pub fn close_group(&mut self, group: Number) -> Number {
        // There was no room for it.
        if group == 0 {
            return 0;
        }
        let outer = self.groups.at(group).outer;
        self.groups.remove(group);
        outer
    }
}
