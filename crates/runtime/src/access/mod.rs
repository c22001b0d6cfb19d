//! Accesses to shared memory: what compiled code calls when its inlined check fails. What is logic, the recorders and the
//! protocol between threads, is a crate of its own, `access-protocol` (its `README.md` has the protocol); here is what touches the
//! process: the program's memory, the shadow's addresses, replay.
mod assembly;
mod atomics;
mod declared;
mod elements;
pub mod late;
pub mod loops;
mod plain;
mod ranges;
mod seen;
mod strings;
mod thread;
mod word_scan;
mod words;
mod world;

pub use access_protocol::Reach;
pub use access_protocol::cell;
pub use atomics::__refrain_atomic_cas4;
pub use atomics::__refrain_atomic_store4;
pub use strings::copy_text;
pub use world::cell_word;
pub use world::free_epochs;

/// Functions that compiled code calls in the place of libc's: each one's contract is that of the function of libc whose name follows `__refrain_`.
macro_rules! observed_functions {
    ($($name:ident ($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {$(
        /// # Safety
        /// As for the function of libc that it stands for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the program's own call: its arguments are as libc's function demands.
            unsafe { $body }
        }
    )*};
}

pub(crate) use observed_functions;
