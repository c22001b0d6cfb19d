//! The settings of a run in `run.json`: a field for each, by its name. What a run of an earlier version does not have is as it is by default.
use run_model::Method;
use runtime_abi::RunSettings;
use runtime_abi::settings::Text;
use serde::Deserialize;
use serde::Deserializer;
use serde::Serializer;
use serde::de::Error;
use serde::ser::SerializeMap;
use serde_json::Value;
use std::collections::BTreeMap;

pub fn serialize<S: Serializer>(settings: &RunSettings, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    settings.for_each(|name, text| match text {
        Text::Nothing => map.serialize_entry(name, &()),
        Text::Flag(flag) => map.serialize_entry(name, &flag),
        Text::Number(number) => map.serialize_entry(name, &number),
        Text::Word(word) => map.serialize_entry(name, word),
        Text::Words([]) => Ok(()),
        Text::Words(words) => map.serialize_entry(name, words),
    })?;
    map.end()
}

/// All versions have written these.
const REQUIRED: [&str; 2] = ["method", "scope"];
/// What no setting is like.
const UNLIKE_ANY: Text<'_> = Text::Word("");

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RunSettings, D::Error> {
    let fields = BTreeMap::<String, Value>::deserialize(deserializer)?;
    if let Some(missing) = REQUIRED.iter().find(|name| !fields.contains_key(**name)) {
        return Err(D::Error::missing_field(missing));
    }
    let mut settings = RunSettings::default();
    for (name, value) in &fields {
        let words: Vec<&str> = value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let text = match value {
            Value::Null => Text::Nothing,
            Value::Bool(flag) => Text::Flag(*flag),
            Value::Number(number) => number.as_u64().map_or(UNLIKE_ANY, Text::Number),
            Value::String(word) => Text::Word(word),
            Value::Array(all) if all.len() == words.len() => Text::Words(&words),
            Value::Array(_) | Value::Object(_) => UNLIKE_ANY,
        };
        // What is none of ours is left alone.
        settings
            .set(name, text)
            .map_err(|refusal| D::Error::custom(format!("{}: {value}", refusal.why)))?;
    }
    settings.method = Method::of_run(settings.method.name(), settings.scope).unwrap_or(settings.method);
    Ok(settings)
}
