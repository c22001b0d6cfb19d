//! A procedural macro: runs in the compiler, and is not recorded.
use proc_macro::TokenStream;

/// The number of threads to use.
#[proc_macro]
pub fn threads(_: TokenStream) -> TokenStream {
    text().parse().expect("a literal")
}

fn text() -> String {
    format!("{}usize", 3)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_macro_has_tests() {
        assert_eq!(super::text(), "3usize");
    }
}
