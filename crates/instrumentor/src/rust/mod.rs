//! Rust programs: what `cargo refrain` puts in cargo's way.
//!
//! Cargo calls [`rustc`] for every crate and, through it, [`link`] for every program. Crates are compiled to LLVM bitcode
//! only (`-C linker-plugin-lto`), and the standard library has its bitcode inside already: rlibs of a stable toolchain
//! carry it in a section. So everything that ends up in a program, std's locks included, goes through the pass when the
//! program is linked, and comes from a [`cache`] the next time. Nothing is built again, and no component is needed beyond the
//! toolchain that is there.
//!
//! ```text
//! cargo ── rustc wrapper ──▶ rlibs and objects of bitcode      (machine code is not made twice)
//!             │  rustc
//!             ▼  linker wrapper
//!          every object: bitcode? ── opt (the pass) ── llc ──▶ cache ──▶ the real linker, with the runtime
//! ```
//!
//! Build scripts, procedural macros and what they use are compiled for the host, as ever.
pub mod cache;
pub mod link;
pub mod objects;
pub mod rustc;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The only target that can be recorded. It is always named on cargo's command line, which keeps host and target apart.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How the parts of a build find each other: variables that `cargo refrain` sets for cargo.
pub mod variable {
    /// `sync` or `memory`; read by the pass as well (`pass/options.h`).
    pub const SCOPE: &str = "REFRAIN_BUILD_SCOPE";
    /// Where instrumented objects are kept.
    pub const CACHE: &str = "REFRAIN_CARGO_CACHE";
    /// The user's own `RUSTC_WRAPPER`.
    pub const WRAPPER: &str = "REFRAIN_CARGO_WRAPPER";
    /// Set by the wrapper of rustc for what rustc starts: the linker that would have been used.
    pub const LINKER: &str = "REFRAIN_CARGO_LINKER";
    /// The same: `host` or `target`.
    pub const LINK_FOR: &str = "REFRAIN_CARGO_LINK_FOR";
}

/// What a crate was compiled like; in a file beside its objects, because they do not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub is_optimised: bool,
    /// Compiled with `--test`: its `main` is that of the test harness.
    pub has_harness: bool,
}

impl Note {
    /// For `NAME-HASH` in the directory of its objects.
    fn path(directory: &std::path::Path, stem: &str) -> PathBuf {
        directory.join(format!("{stem}.refrain"))
    }

    fn write(self, directory: &std::path::Path, stem: &str) -> std::io::Result<()> {
        let word = |name: &str, is_set: bool| if is_set { format!("{name}\n") } else { String::new() };
        let text = word("optimised", self.is_optimised) + &word("harness", self.has_harness);
        std::fs::write(Note::path(directory, stem), text)
    }

    /// The note about the crate whose file this is: `libNAME-HASH.rlib`, `NAME-HASH` or one of its objects.
    pub fn about(directory: &std::path::Path, file_name: &str) -> Option<Note> {
        let name = file_name.split('.').next()?;
        let stems = [Some(name), name.strip_prefix("lib")];
        let read = |stem: &str| std::fs::read_to_string(Note::path(directory, stem)).ok();
        let text = stems.into_iter().flatten().find_map(read)?;
        let has = |word: &str| text.lines().any(|line| line == word);
        Some(Note {
            is_optimised: has("optimised"),
            has_harness: has("harness"),
        })
    }
}

/// The programs of LLVM that are used, unless a variable names others.
fn llvm_tool(variable: &str, default: &str) -> OsString {
    env::var_os(variable)
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| default.into())
}

pub fn opt() -> OsString {
    llvm_tool("REFRAIN_OPT", "opt-22")
}

pub fn llc() -> OsString {
    llvm_tool("REFRAIN_LLC", "llc-22")
}

pub fn llvm_ar() -> OsString {
    llvm_tool("REFRAIN_LLVM_AR", "llvm-ar-22")
}
