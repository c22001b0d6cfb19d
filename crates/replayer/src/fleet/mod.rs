//! What a client of a fleet does (docs/fleet.md): it chooses the elements whose vectors are recorded, makes a partial log of a run that was recorded so, and
//! runs the program under vectors that a server has put together, to see whether the failure comes back.
mod advice;
mod attempt;
mod choice;
mod failure;
mod inputs;
mod names;
mod partial;
mod whole;

pub use advice::Advice;
pub use attempt::Attempt;
pub use attempt::Tried;
pub use attempt::attempt;
pub(crate) use attempt::hangs;
pub use choice::Element;
pub use choice::chosen_file;
pub use choice::elements_of;
pub use choice::is_in_parts;
pub use failure::failure_of;
pub use inputs::INPUTS_BYTES_MAX;
pub use inputs::RunInputs;
pub use partial::build_of;
pub use partial::inputs_digest;
pub use partial::outline;
pub use partial::partial_log;
