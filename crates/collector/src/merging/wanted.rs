//! What somebody wants of a merge.
use crate::Limits;
use crate::questions::BugLogs;
use crate::unhex;
use partial_logs::MergeSettings;
use partial_logs::Metric;
use partial_logs::Mode;
use partial_logs::NeighbourSettings;
use partial_logs::Threshold;
use serde_json::Value;
use serde_json::json;

/// Of fewer digits nobody means one log.
const BASE_DIGITS_MIN: usize = 6;

#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub metric: Metric,
    pub threshold: Threshold,
    pub mode: Mode,
    pub budget: u32,
    /// Logs of other inputs are taken, too.
    pub across_inputs: bool,
    /// Of the logs that are merged; nothing: of those that are most.
    pub inputs: Option<[u8; 32]>,
    pub seed: u64,
    /// A log that candidates begin with, before all others: the beginning of its hash.
    pub base: Option<String>,
}

impl Wanted {
    /// A sentence that says what is not understood. What is not said is as usual.
    pub fn read(value: &Value, limits: &Limits) -> Result<Wanted, String> {
        let empty = serde_json::Map::new();
        let fields = match value {
            Value::Null => &empty,
            Value::Object(fields) => fields,
            _ => return Err("what is wanted is one JSON object".to_owned()),
        };
        let mut wanted = Wanted {
            metric: Metric::Dispersion,
            threshold: Threshold::Scaled,
            mode: Mode::Refrain,
            budget: limits.attempts_max,
            across_inputs: false,
            inputs: None,
            seed: 0,
            base: None,
        };
        for (name, value) in fields {
            let wrong = |what: &str| format!("{name} is {what}, not {value}");
            match name.as_str() {
                "metric" => {
                    wanted.metric = match value.as_str() {
                        Some("psim") => Metric::Plain,
                        Some("dsim") => Metric::Dispersion,
                        Some("none") => Metric::None,
                        _ => return Err(wrong("psim, dsim or none")),
                    };
                }
                "threshold" => {
                    wanted.threshold = match value.as_str() {
                        Some("literal") => Threshold::Literal,
                        Some("scaled") => Threshold::Scaled,
                        _ => return Err(wrong("literal or scaled")),
                    };
                }
                "mode" => {
                    wanted.mode = match value.as_str() {
                        Some("refrain") => Mode::Refrain,
                        Some("paper") => Mode::Paper,
                        Some("random") => Mode::Random,
                        _ => return Err(wrong("refrain, paper or random")),
                    };
                }
                "budget" | "attempts" => {
                    let number = value.as_u64().filter(|number| *number > 0);
                    let number = number.ok_or_else(|| wrong("a number of attempts"))?;
                    wanted.budget = number.min(u64::from(limits.attempts_max)) as u32;
                }
                "seed" => wanted.seed = value.as_u64().ok_or_else(|| wrong("a number"))?,
                "across_inputs" => wanted.across_inputs = value.as_bool().ok_or_else(|| wrong("true or false"))?,
                "inputs" => {
                    let digest = value.as_str().and_then(unhex::<32>);
                    wanted.inputs = Some(digest.ok_or_else(|| wrong("a digest of 64 hexadecimal digits"))?);
                }
                "base" => {
                    let is_beginning = |text: &&str| {
                        (BASE_DIGITS_MIN..=64).contains(&text.len())
                            && text.bytes().all(|byte| byte.is_ascii_hexdigit())
                    };
                    let base = value.as_str().filter(is_beginning);
                    let base =
                        base.ok_or_else(|| wrong("the beginning of a log's hash, of 6 hexadecimal digits or more"))?;
                    wanted.base = Some(base.to_ascii_lowercase());
                }
                _ => return Err(format!("nothing is known of {name:?}")),
            }
        }
        Ok(wanted)
    }

    /// A sentence if there is no such base.
    pub fn settings(&self, logs: &BugLogs) -> Result<MergeSettings, String> {
        let settings = match self.mode {
            Mode::Paper => MergeSettings::paper(self.metric),
            Mode::Refrain => MergeSettings::new(self.metric),
            Mode::Random => MergeSettings::random(self.seed),
        };
        let first_bases = match &self.base {
            Some(base) => vec![logs.beginning(base)?],
            None => Vec::new(),
        };
        Ok(MergeSettings {
            first_bases,
            neighbours: NeighbourSettings {
                threshold: self.threshold,
                ..settings.neighbours
            },
            budget: self.budget,
            seed: self.seed,
            ..settings
        })
    }

    pub fn json(&self) -> Value {
        json!({
            "metric": metric_name(self.metric),
            "threshold": match self.threshold { Threshold::Literal => "literal", Threshold::Scaled => "scaled" },
            "mode": match self.mode { Mode::Refrain => "refrain", Mode::Paper => "paper", Mode::Random => "random" },
            "budget": self.budget, "seed": self.seed, "across_inputs": self.across_inputs,
            "inputs": self.inputs.map(|digest| crate::hex(&digest)), "base": self.base,
        })
    }
}

fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Plain => "psim",
        Metric::Dispersion => "dsim",
        Metric::None => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use partial_logs::LogId;
    use partial_logs::UniverseBuilder;

    #[test]
    fn what_is_wanted_is_understood_or_refused() {
        let read = |value: Value| Wanted::read(&value, &Limits::default());
        let all = json!({
            "metric": "psim", "threshold": "literal", "mode": "paper", "budget": 7, "seed": 3, "across_inputs": true,
            "inputs": crate::hex(&[1; 32]), "base": "00c0ff",
        });
        let wanted = read(all.clone()).expect("fine");
        assert_eq!(wanted.json(), all);
        let logs = BugLogs {
            universe: UniverseBuilder::new([]).build(),
            hashes: vec![[0xc0; 32], [0; 32]],
        };
        let refused = wanted.settings(&logs).expect_err("no such log");
        assert!(
            refused.contains("no log of this failure begins with 00c0ff"),
            "{refused}"
        );
        let wanted = Wanted {
            base: Some("c0c0c0".to_owned()),
            ..wanted
        };
        let settings = wanted.settings(&logs).expect("there is such a log");
        assert_eq!((settings.budget, settings.first_bases), (7, vec![LogId(0)]));
        assert_eq!(read(json!({ "budget": 1_000_000 })).expect("fine").budget, 500);
        for wrong in [
            json!([]),
            json!({ "metric": "x" }),
            json!({ "budget": 0 }),
            json!({ "base": "c0ff" }),
            json!({ "base": "../../.." }),
            json!({ "budget": "1" }),
            json!({ "inputs": "ab" }),
            json!({ "treshold": "literal" }),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
