//! Pages, written from beginning to end. What is not part of this program is text, and is escaped: markup is `&'static str`.
use std::fmt::Display;
use std::fmt::Write;

#[derive(Debug, Default)]
pub struct Html(String);

impl Html {
    /// Markup.
    pub fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Text, in an element or in an attribute in double quotes.
    pub fn text(&mut self, text: impl Display) -> &mut Html {
        // Writing to a string does not fail.
        _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// Escapes what is written to it.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for one in text.chars() {
            match one {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // What a terminal or a reader could take for something else is shown by its number: control characters, and those that turn the direction of text.
                '\n' | '\t' => self.0.push(one),
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => write!(self.0, "\\u{{{:x}}}", u32::from(one))?,
                one if one.is_control() => write!(self.0, "\\u{{{:x}}}", u32::from(one))?,
                one => self.0.push(one),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let mut html = Html::default();
        html.raw("<p title=\"")
            .text("a\" onload='x' &amp;")
            .raw("\">")
            .text("<script>alert(1)</script>\0\u{202e}\n");
        assert_eq!(
            html.finish(),
            "<p title=\"a&quot; onload=&#39;x&#39; &amp;amp;\">&lt;script&gt;alert(1)&lt;/script&gt;\\u{0}\\u{202e}\n"
        );
    }
}
