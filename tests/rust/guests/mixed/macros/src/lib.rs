//! A procedural macro: runs in the compiler, and is not recorded.
use proc_macro::TokenStream;

/// The number of threads to use.
#[proc_macro]
pub fn threads(_: TokenStream) -> TokenStream {
    "3usize".parse().expect("a literal")
}
