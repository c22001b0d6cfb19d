//! Crates that people build on, used the way people use them; see `tests`.
