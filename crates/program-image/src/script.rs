//! The first line of a script, as the kernel reads it (`fs/binfmt_script.c`).

/// As much of a script as the kernel looks at.
pub const LINE_BYTES_MAX: usize = 256;
/// Scripts whose interpreters are scripts, at most; the kernel says ELOOP to more.
pub const NESTED_MAX: usize = 5;

/// `#!INTERPRETER ARGUMENT`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub interpreter: &'a [u8],
    /// All that follows, as one argument.
    pub argument: Option<&'a [u8]>,
}

impl<'a> Line<'a> {
    /// What the first bytes of a file say, `LINE_BYTES_MAX` of them if there are as many. `None`: the kernel does not execute it (ENOEXEC).
    pub fn read(head: &'a [u8]) -> Option<Line<'a>> {
        let head = &head[..head.len().min(LINE_BYTES_MAX)];
        let text = head.strip_prefix(b"#!")?;
        let text = match text.iter().position(|byte| *byte == b'\n' || *byte == 0) {
            Some(end) => &text[..end],
            // The kernel takes the last byte that it looks at for the end, but not if that is within the interpreter's name.
            None if head.len() == LINE_BYTES_MAX => {
                let has_end = trim_start(text).iter().any(|byte| is_blank(*byte));
                has_end.then_some(&text[..text.len() - 1])?
            }
            None => text,
        };
        let text = trim_end(trim_start(text));
        let end = text.iter().position(|byte| is_blank(*byte)).unwrap_or(text.len());
        let (interpreter, rest) = text.split_at(end);
        let argument = trim_start(rest);
        (!interpreter.is_empty()).then_some(Line {
            interpreter,
            argument: (!argument.is_empty()).then_some(argument),
        })
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    &text[start..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|byte| !is_blank(*byte))
        .map_or(0, |last| last + 1);
    &text[..end]
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn read(head: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
        Line::read(head).map(|line| (line.interpreter, line.argument))
    }

    #[test]
    fn a_line_has_an_interpreter_and_at_most_one_argument() {
        let sh: &[u8] = b"/bin/sh";
        assert_eq!(read(b"#!/bin/sh\nexit\n"), Some((sh, None)));
        assert_eq!(read(b"#! \t/bin/sh \t \n"), Some((sh, None)));
        assert_eq!(read(b"#!/bin/sh -e -x \n"), Some((sh, Some(&b"-e -x"[..]))));
        assert_eq!(read(b"#!/bin/sh\t-e"), Some((sh, Some(&b"-e"[..]))));
        assert_eq!(read(b"#!/bin/sh"), Some((sh, None)));
        assert_eq!(read(b"#!/bin/sh\r\n"), Some((&b"/bin/sh\r"[..], None)));
        assert_eq!(read(b"#!/bin/sh\0 -e\n"), Some((sh, None)));
    }

    #[test]
    fn what_the_kernel_does_not_execute_has_none() {
        for head in [
            &b""[..],
            b"#",
            b"#!",
            b"#!\n/bin/sh",
            b"#! \t",
            b" #!/bin/sh\n",
            b"echo\n",
            b"\x7fELF",
        ] {
            assert_eq!(read(head), None, "{head:?}");
        }
    }

    #[test]
    fn the_kernel_looks_at_256_bytes() {
        let of = |name: usize, rest: &[u8]| [&b"#!/"[..], "x".repeat(name).as_bytes(), rest].concat();
        let interpreter = |head: &[u8]| read(head).map(|(interpreter, _)| interpreter.len());
        assert_eq!(interpreter(&of(252, b"\n")), Some(253));
        // The end of the name is not among them.
        assert_eq!(interpreter(&of(253, b"\n")), None);
        assert_eq!(interpreter(&of(300, b"\n")), None);
        // An argument is cut off.
        let long: Vec<u8> = of(100, &[&b" "[..], "y".repeat(300).as_bytes()].concat());
        assert_eq!(
            read(&long).and_then(|(_, argument)| argument).map(<[u8]>::len),
            Some(256 - 1 - 104)
        );
    }
}
