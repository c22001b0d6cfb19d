//! Writing to people and pipes. A reader that has gone away is no error; nothing here panics.
use run_store::shown;
use std::fmt;
use std::io;
use std::io::BufWriter;
use std::io::Write;

/// A sentence on standard error, behind our name.
pub fn say(sentence: fmt::Arguments<'_>) {
    // There is nobody left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "refrain: {}", shown(&sentence.to_string()));
}

/// A line on standard error that belongs to the sentence before.
pub fn detail(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "  {}", shown(&line.to_string()));
}

/// Runs `write` on standard output and ends quietly when the reader closes it (`| head`).
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), crate::Failure> {
    let mut out = Tame(BufWriter::new(io::stdout().lock()));
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(crate::Failure {
            sentence: format!("cannot write to standard output: {e}"),
            status: 3,
        }),
        _ => Ok(()),
    }
}

/// Passes lines on, and shows what would command a terminal as the escapes that it is in JSON.
struct Tame<W>(W);

impl<W: Write> Write for Tame<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whoever formats a value gives whole characters.
        let text = String::from_utf8_lossy(bytes);
        for piece in text.split_inclusive(['\n', '\t']) {
            let line = piece.trim_end_matches(['\n', '\t']);
            self.0.write_all(shown(line).as_bytes())?;
            self.0.write_all(&piece.as_bytes()[line.len()..])?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub fn print_json(value: &serde_json::Value) -> Result<(), crate::Failure> {
    print(|out| writeln!(out, "{value:#}"))
}

/// `1.4 MB`: as short as it can be and still be useful.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// "1 thread", "2 threads".
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

/// Unix seconds as a date and time in UTC.
pub fn when(unix: u64) -> String {
    let (day, second) = (unix / 86_400, unix % 86_400);
    let (year, month, day) = date(day);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Days since 1970-01-01 to year, month, day. Years begin in March, so that the leap day is a year's last.
fn date(days: u64) -> (u64, u64, u64) {
    // 719468 days lie between 0000-03-01 and 1970-01-01; an era of 400 years has 146097.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(when(0), "1970-01-01 00:00:00Z");
        assert_eq!(when(951_782_400), "2000-02-29 00:00:00Z");
        assert_eq!(when(951_868_799), "2000-02-29 23:59:59Z");
        assert_eq!(when(1_767_225_600), "2026-01-01 00:00:00Z");
        assert_eq!(when(4_107_542_400), "2100-03-01 00:00:00Z");
    }

    #[test]
    fn what_is_printed_commands_no_terminal_and_stays_json() {
        let mut tame = Tame(Vec::new());
        write!(tame, "a\x1b[2J\tb\r\n\n{}\n", serde_json::json!("\u{7f}\u{9b}\n")).expect("written");
        let text = String::from_utf8(tame.0).expect("text");
        assert_eq!(text, "a\\u001b[2J\tb\\r\n\n\"\\u007f\\u009b\\n\"\n");
        let line = text.lines().last().expect("a line");
        assert_eq!(serde_json::from_str::<String>(line).expect("JSON"), "\u{7f}\u{9b}\n");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1 << 20), "1.0 MB");
        assert_eq!(size(u64::MAX), "16777216.0 TB");
    }
}
