//! Exports the thread-local variable that `src/local/mod.rs` defines in assembly: a cdylib exports only Rust items by
//! itself, and stable Rust has no thread-local items with a name and a model of our choice.
fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={directory}/exports.map");
    // As a program, it begins here (`src/host/mod.rs`).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-e,__refrain_host");
    println!("cargo:rerun-if-changed=exports.map");
}
