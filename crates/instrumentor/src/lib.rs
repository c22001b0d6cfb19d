//! Makes C and C++ programs recordable: source in, instrumented object or program and its site table out.
//!
//! Two halves. The LLVM pass in `pass/` (C++, because it has to cut up basic blocks, which LLVM's C interface cannot)
//! rewrites a module so that its shared accesses are observed; start reading at `pass/plugin.cpp`. The Rust half is
//! [`driver`], a drop-in replacement for clang that loads the pass and links the runtime, and [`sites`], which reads
//! back the table that says where in the source each observed operation stands; [`spes`] lists what they access. [`units`]
//! reads back the bitcode that is kept of what was built with `--det`, and the numbers by which traces name its blocks.
//!
//! What it deliberately does not do: it never looks at a whole program (each module is instrumented by itself), and it
//! knows nothing of logs or schedules. Its contract with the runtime is `runtime-abi` and `pass/abi.h`.
//!
//! Invariant: an execution performs the same events in the same order whichever path (single access, group, plain
//! loop) it takes through instrumented code, so a recording and its replay may take different ones.
#![forbid(unsafe_code)]

pub mod driver;
pub mod imports;
mod inflate;
pub mod rust;
pub mod sites;
pub mod spes;
pub mod units;

/// The LLVM that the pass is made for.
pub const LLVM_MAJOR: u32 = 22;

/// File name of the pass, found beside the `refrain` executable.
pub const PASS_LIBRARY: &str = "librefrain_pass.so";

/// Where this build put the pass; for tests, which do not run from beside it.
pub const PASS_BUILT: &str = env!("REFRAIN_PASS_BUILT");
