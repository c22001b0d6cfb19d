//! `refrain schedules why`: is there a schedule for this program with these arguments, and if not, what is missing?
use super::program;
use crate::Ended;
use crate::output::count;
use crate::output::print;
use crate::output::print_json;
use crate::output::when;
use crate::runs::some_of;
use replayer::deterministic::Subject;
use run_store::Error;
use run_store::Lookup;
use run_store::Nearest;
use run_store::Others;
use run_store::ScheduleCache;
use serde_json::Value;
use serde_json::json;
use std::ffi::OsString;

/// Names listed one after the other; JSON has all.
const NAMES_SHOWN: usize = 12;

/// The answer: one word, a sentence for each thing that there is to say, and what else JSON has.
struct Answer {
    hit: bool,
    reason: &'static str,
    schedule: Option<String>,
    sentences: Vec<String>,
    more: Vec<(&'static str, Value)>,
}

impl Answer {
    fn new(reason: &'static str, sentence: String) -> Answer {
        Answer {
            hit: false,
            reason,
            schedule: None,
            sentences: vec![sentence],
            more: Vec::new(),
        }
    }
}

pub fn why(cache: &ScheduleCache, command: &[OsString], json: bool) -> Ended {
    let subject = Subject::of(command.to_vec())?;
    let answer = match cache.lookup(&subject.key) {
        Ok(Lookup::Hit(entry)) => Answer {
            hit: true,
            schedule: Some(entry.name()),
            ..Answer::new(
                "hit",
                format!(
                    "the next run follows it; it was learned {}, and what it read then is compared with what it reads",
                    when(entry.meta().learned.learned_at)
                ),
            )
        },
        Ok(Lookup::Sealed(entry)) => Answer {
            schedule: Some(entry.name()),
            ..Answer::new(
                "sealed",
                format!(
                    "there is one that cannot be used: {}",
                    entry.meta().learned.sealed.as_deref().unwrap_or_default()
                ),
            )
        },
        Ok(Lookup::Miss) => missing(cache, &subject)?,
        Err(error @ (Error::Schedule { .. } | Error::Corrupt { .. } | Error::Newer { .. })) => Answer {
            schedule: Some(subject.key.name().to_owned()),
            ..Answer::new("damaged", error.to_string())
        },
        Err(error) => return Err(error.into()),
    };
    tell(&answer, json)
}

fn tell(answer: &Answer, json: bool) -> Ended {
    if json {
        let mut value = json!({
            "hit": answer.hit,
            "reason": answer.reason,
            "schedule": answer.schedule,
            "sentences": answer.sentences,
        });
        for (name, more) in &answer.more {
            value[*name] = more.clone();
        }
        print_json(&value)?;
        return Ok(0);
    }
    let what = if answer.hit { "hit" } else { "miss" };
    let name = answer
        .schedule
        .as_ref()
        .map_or_else(String::new, |name| format!(" {name}"));
    print(|out| {
        for (index, sentence) in answer.sentences.iter().enumerate() {
            match index {
                0 => writeln!(out, "{what}{name}: {sentence}")?,
                _ => writeln!(out, "  {sentence}")?,
            }
        }
        Ok(())
    })?;
    Ok(0)
}

/// What is another thing in the schedules that are there.
fn missing(cache: &ScheduleCache, subject: &Subject) -> Result<Answer, Error> {
    let Others {
        nearest,
        of_other_builds,
    } = cache.others(&subject.key)?;
    if let Some(nearest) = nearest {
        return Ok(unlike(&nearest));
    }
    if of_other_builds.is_empty() {
        let cache = cache.root().display();
        return Ok(Answer::new(
            "program",
            format!("nothing was learned of this program yet: `refrain run` learns it ({cache})"),
        ));
    }
    let names: Vec<String> = of_other_builds.iter().map(|(place, _)| place.name()).collect();
    let builds = of_other_builds.iter().map(|(place, meta)| {
        json!({
            "schedule": place.name(),
            "build": meta.key.build().hash,
            "program": meta.key.build().program.path,
            "refrain": meta.refrain,
            "learned_at": meta.learned.learned_at,
        })
    });
    let mut answer = Answer::new(
        "build",
        format!(
            "no schedule for this build of {}; there {} of other builds, or of another version of refrain: {}",
            program(&of_other_builds[0].1),
            match names.len() {
                1 => "is 1".to_owned(),
                number => format!("are {number}"),
            },
            some_of(&names, NAMES_SHOWN)
        ),
    );
    answer.more.push(("builds", builds.collect()));
    Ok(answer)
}

fn unlike(nearest: &Nearest) -> Answer {
    let (arguments, variables) = (&nearest.unlike.arguments, &nearest.unlike.variables);
    let name = nearest.place.name();
    let said = |word: &Option<run_store::Text>| match word {
        Some(word) => format!("'{word}'"),
        None => "nothing".to_owned(),
    };
    let mut sentences = Vec::new();
    for one in arguments {
        sentences.push(format!(
            "argument {} is {}, and was {}",
            one.position,
            said(&one.now),
            said(&one.learned)
        ));
    }
    for one in variables {
        sentences.push(match (&one.now, &one.learned) {
            (Some(now), Some(learned)) => {
                format!(
                    "variable {} has another value (hash {now}, and was {learned})",
                    one.name
                )
            }
            (None, _) => format!("variable {} is not set, and was", one.name),
            (_, None) => format!("variable {} is set, and was not", one.name),
        });
    }
    let (reason, first) = match (arguments.is_empty(), variables.is_empty()) {
        (false, true) => ("arguments", "other arguments".to_owned()),
        (false, false) => ("arguments", "other arguments and another environment".to_owned()),
        (true, false) => (
            "environment",
            format!("another environment, in {}", count(variables.len() as u64, "variable")),
        ),
        (true, true) => (
            "environment",
            "another environment; the variable's hash has the same first digits".to_owned(),
        ),
    };
    let mut answer = Answer::new(reason, format!("{first} than schedule {name}, the one most like it"));
    answer.sentences.extend(sentences);
    answer.more = vec![
        ("nearest", json!(name)),
        (
            "arguments",
            arguments
                .iter()
                .map(|one| json!({ "position": one.position, "now": one.now, "learned": one.learned }))
                .collect(),
        ),
        (
            "environment",
            variables
                .iter()
                .map(|one| json!({ "name": one.name, "now": one.now, "learned": one.learned }))
                .collect(),
        ),
    ];
    answer
}
