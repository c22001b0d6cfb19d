//! The search against programs in the paper's kernel language.
mod behaviour;
mod figures;
mod kernel;
mod properties;
mod saving;
