//! What the server says while it runs: one JSON object a line, on standard error.
use serde_json::Map;
use serde_json::Value;
use std::io::Write;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

/// A line. That nobody can read it any more is no reason to stop.
pub fn say(event: &str, of: Value) {
    let mut line = Map::new();
    line.insert("at_ms".to_owned(), now_ms().into());
    line.insert("event".to_owned(), event.into());
    if let Value::Object(of) = of {
        line.extend(of);
    }
    let mut text = Value::Object(line).to_string();
    text.push('\n');
    _ = std::io::stderr().lock().write_all(text.as_bytes());
}
