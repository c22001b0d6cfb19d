//! Text that comes from programs, runs and archives, as it may be shown to people.
//!
//! A name may be any bytes: a newline in it would forge a line of ours, an escape sequence would command the reader's terminal, and marks of direction
//! would make it look like another one. All of these are shown as JSON's escapes, so that what is JSON stays JSON.
use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// Does this character do anything but show itself?
pub fn is_command(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        )
}

/// The text in one line, with escapes for whatever would do anything but show itself.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !is_command(c) => safe.push(c),
            '\n' | '\r' | '\t' => safe.extend(c.escape_default()),
            // All of them have four digits at most.
            c => write!(safe, "\\u{:04x}", c as u32).expect("writing to a String cannot fail"),
        }
    }
    Cow::Owned(safe)
}

/// A path, in the same way. Bytes that are no text are shown as such.
pub fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_a_terminal_is_escaped() {
        assert_eq!(shown("plain – grüße 漢字"), "plain – grüße 漢字");
        assert!(matches!(shown("plain"), Cow::Borrowed(_)));
        assert_eq!(shown("a\x1b[2Jb\nc\rd\te\x7f\0"), r"a\u001b[2Jb\nc\rd\te\u007f\u0000");
        assert_eq!(shown("\u{9b}31m \u{202e}txt.exe"), r"\u009b31m \u202etxt.exe");
    }
}
