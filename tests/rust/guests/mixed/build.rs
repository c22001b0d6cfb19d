//! Generates a constant, and compiles the C half of the package.
use std::env;
use std::fs;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=c/ticket.c");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("rounds.rs"), "pub const ROUNDS: u32 = 200;\n").expect("OUT_DIR can be written");
    cc::Build::new().file("c/ticket.c").compile("ticket");
}
