//! Operating-system strings in JSON: plain where they are UTF-8, hexadecimal where not, and always exactly back.
use crate::shown::shown;
use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use serde::de::Error as _;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fmt;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;

/// An argument, variable or path, which Linux allows to be any bytes without NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub OsString);

impl Text {
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

impl<T: Into<OsString>> From<T> for Text {
    fn from(value: T) -> Text {
        Text(value.into())
    }
}

/// For people: what a terminal would take as a command is escaped.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0.to_string_lossy()))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Encoded {
    Plain(String),
    Bytes { hex: String },
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => Encoded::Plain(text.to_owned()),
            None => Encoded::Bytes {
                hex: to_hex(self.0.as_bytes()),
            },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        let bytes = match Encoded::deserialize(deserializer)? {
            Encoded::Plain(text) => text.into_bytes(),
            Encoded::Bytes { hex } => {
                from_hex(&hex).ok_or_else(|| D::Error::custom("a malformed hexadecimal string"))?
            }
        };
        // A NUL would end the string early in every system call it is later given to.
        if bytes.contains(&0) {
            return Err(D::Error::custom("a string that contains a NUL"));
        }
        Ok(Text(OsString::from_vec(bytes)))
    }
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(hex, "{byte:02x}").expect("writing to a String cannot fail");
    }
    hex
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(bytes: &[u8]) -> String {
        let text = Text(OsString::from_vec(bytes.to_vec()));
        let json = serde_json::to_string(&text).expect("serialises");
        assert_eq!(serde_json::from_str::<Text>(&json).expect("comes back"), text);
        json
    }

    #[test]
    fn utf8_stays_readable_and_other_bytes_come_back_exactly() {
        assert_eq!(round_trip("grüße".as_bytes()), "\"grüße\"");
        assert_eq!(round_trip(b"a\xff"), r#"{"hex":"61ff"}"#);
        assert_eq!(round_trip(b""), r#""""#);
    }

    #[test]
    fn malformed_strings_are_refused() {
        for json in [
            r#"{"hex":"6"}"#,
            r#"{"hex":"zz"}"#,
            r#"{"hex":"é"}"#,
            r#""a\u0000b""#,
            "3",
            r#"{"hex":"00"}"#,
        ] {
            assert!(serde_json::from_str::<Text>(json).is_err(), "{json} was accepted");
        }
    }
}
