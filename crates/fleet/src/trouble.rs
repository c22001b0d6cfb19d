//! Why a command of the fleet could not do what it was asked: one sentence, and an exit status.
use std::fmt;

/// Wrong usage.
const USAGE: u8 = 2;
/// A server, token, build or store that cannot be used; or a run.
const UNUSABLE: u8 = 3;

#[derive(Debug)]
pub struct Trouble {
    pub sentence: String,
    pub status: u8,
    /// Trying again later may help: nobody answered, or the server was busy.
    pub may_pass: bool,
}

pub type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    pub fn usage(sentence: impl Into<String>) -> Trouble {
        Trouble {
            sentence: sentence.into(),
            status: USAGE,
            may_pass: false,
        }
    }

    pub fn unusable(sentence: impl Into<String>) -> Trouble {
        Trouble {
            sentence: sentence.into(),
            status: UNUSABLE,
            may_pass: false,
        }
    }

    /// The same, and it may be otherwise later.
    pub fn passing(sentence: impl Into<String>) -> Trouble {
        Trouble {
            may_pass: true,
            ..Trouble::unusable(sentence)
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<replayer::Error> for Trouble {
    fn from(error: replayer::Error) -> Trouble {
        Trouble {
            sentence: error.to_string(),
            status: error.exit_status() as u8,
            may_pass: false,
        }
    }
}

impl From<run_store::Error> for Trouble {
    fn from(error: run_store::Error) -> Trouble {
        replayer::Error::from(error).into()
    }
}
