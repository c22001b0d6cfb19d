//! An event that is open: what the thread does until it is closed is part of it (`crate::ghost`).
use crate::this_machine::ThisMachine;
use access_protocol::HeldObject;

pub struct Open {
    /// While recording, its object is held.
    pub held: Option<HeldObject<ThisMachine>>,
    /// Was the thread inside an event before?
    pub outside: bool,
}
