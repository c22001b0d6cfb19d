//! Why a key has no schedule: what is another thing in those that are there.
use super::ScheduleCache;
use super::entry::SchedulePlace;
use super::key::ScheduleKey;
use super::meta::ScheduleMeta;
use crate::Result;
use crate::Text;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// An argument that is another one. The program's name has the position 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherArgument {
    pub position: usize,
    /// `None`: there are not so many.
    pub now: Option<Text>,
    pub learned: Option<Text>,
}

/// A variable whose value is another one. Of values only some digits of a hash are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherVariable {
    pub name: Text,
    /// `None`: it is not there.
    pub now: Option<String>,
    pub learned: Option<String>,
}

/// In what a schedule's key is another one, of the same build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unlike {
    pub arguments: Vec<OtherArgument>,
    pub variables: Vec<OtherVariable>,
}

/// A schedule that would have been used if only this were the same.
#[derive(Debug)]
pub struct Nearest {
    pub place: SchedulePlace,
    pub meta: ScheduleMeta,
    pub unlike: Unlike,
}

/// Schedules for a program's file of the same path.
#[derive(Debug)]
pub struct Others {
    /// Of this build: the one whose key is most like the one that is wanted.
    pub nearest: Option<Nearest>,
    /// Of other builds.
    pub of_other_builds: Vec<(SchedulePlace, ScheduleMeta)>,
}

impl Unlike {
    pub fn of(now: &ScheduleKey, learned: &ScheduleKey) -> Unlike {
        let (ours, theirs) = (now.arguments(), learned.arguments());
        let at = |position: usize| OtherArgument {
            position,
            now: ours.get(position).cloned(),
            learned: theirs.get(position).cloned(),
        };
        let arguments = (0..ours.len().max(theirs.len())).map(at);
        let digests = |key: &ScheduleKey| -> BTreeMap<Text, String> {
            let variables = key.variables().iter();
            variables
                .map(|variable| (variable.name.clone(), variable.digest.clone()))
                .collect()
        };
        let (ours, theirs) = (digests(now), digests(learned));
        let names: BTreeSet<&Text> = ours.keys().chain(theirs.keys()).collect();
        let variables = names.into_iter().map(|name| OtherVariable {
            name: name.clone(),
            now: ours.get(name).cloned(),
            learned: theirs.get(name).cloned(),
        });
        Unlike {
            arguments: arguments.filter(|one| one.now != one.learned).collect(),
            variables: variables.filter(|one| one.now != one.learned).collect(),
        }
    }

    /// Other arguments are the greater difference.
    fn distance(&self) -> (usize, usize) {
        (self.arguments.len(), self.variables.len())
    }
}

impl ScheduleCache {
    /// What there is for the same program, if there is no schedule for `key`. Entries that cannot be read are passed over.
    pub fn others(&self, key: &ScheduleKey) -> Result<Others> {
        let mut others = Others {
            nearest: None,
            of_other_builds: Vec::new(),
        };
        for place in self.list()? {
            let Ok(meta) = self.meta(&place) else { continue };
            let build = meta.key.build();
            if build.hash == key.build().hash {
                let unlike = Unlike::of(key, &meta.key);
                let is_nearer = |nearest: &Nearest| unlike.distance() < nearest.unlike.distance();
                if others.nearest.as_ref().is_none_or(is_nearer) {
                    others.nearest = Some(Nearest { place, meta, unlike });
                }
            } else if build.program.path == key.build().program.path {
                others.of_other_builds.push((place, meta));
            }
        }
        Ok(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Build;
    use crate::FileIdentity;

    fn key(arguments: &[&str], environment: &[(&str, &str)]) -> ScheduleKey {
        let program = FileIdentity {
            path: "/bin/prog".into(),
            hash: "0".repeat(64),
            bytes: 1,
        };
        ScheduleKey::new(Build::of(program, &[]), arguments, environment.iter().copied(), |_| {
            true
        })
    }

    #[test]
    fn what_is_another_thing_is_named_and_nothing_else() {
        let now = key(&["p", "4", "data"], &[("A", "1"), ("B", "2"), ("C", "3")]);
        assert_eq!(Unlike::of(&now, &now), Unlike::default());
        let learned = key(&["p", "8"], &[("A", "1"), ("B", "other"), ("D", "4")]);
        let unlike = Unlike::of(&now, &learned);
        let positions: Vec<usize> = unlike.arguments.iter().map(|one| one.position).collect();
        assert_eq!(positions, [1, 2]);
        assert_eq!(unlike.arguments[0].learned, Some("8".into()));
        assert_eq!(unlike.arguments[1].learned, None);
        let names: Vec<String> = unlike.variables.iter().map(|one| one.name.to_string()).collect();
        assert_eq!(names, ["B", "C", "D"]);
        assert!(unlike.variables[1].learned.is_none() && unlike.variables[2].now.is_none());
        assert_eq!(unlike.variables[0].now.as_ref().map(String::len), Some(4));
    }
}
