//! The server as its clients see it: over HTTP, in a process of its own.
mod api;
mod durability;
mod hostile;
mod logs;
mod merges;
mod operating;
mod page;
mod server;
