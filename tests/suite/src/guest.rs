//! Guest programs: what their heads say, and how they are built.
use crate::Checked;
use crate::failed;
use crate::sandbox::Sandbox;
use crate::skipped;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// How a run of a guest ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exit(i32),
    Signal(i32),
    Hang,
}

impl Ending {
    /// The exit status of `refrain record`.
    pub fn status(self) -> i32 {
        match self {
            Ending::Exit(code) => code,
            Ending::Signal(signal) => 128 + signal,
            Ending::Hang => 124,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Guest {
    pub source: PathBuf,
    pub flags: Vec<String>,
    pub link: Vec<String>,
    pub with: Vec<PathBuf>,
    pub library: Vec<PathBuf>,
    pub plugin: Vec<PathBuf>,
    pub archive: Vec<PathBuf>,
    pub needs: Vec<String>,
    pub scopes: Vec<String>,
    /// Methods that cannot record it.
    pub not_by: Vec<String>,
    /// What every run does, or nothing if the guest is a bug.
    pub expect: Option<Ending>,
    /// What a failing run does, if the guest is a bug.
    pub fails: Option<Ending>,
    pub attempts: u32,
    pub timeout: Duration,
    /// Shared program elements, of the fleet's guests.
    pub elements: Option<u32>,
}

impl Guest {
    pub fn read(source: &Path) -> Result<Guest, String> {
        let text = fs::read_to_string(source).map_err(|e| format!("cannot read {}: {e}", source.display()))?;
        Guest::parse(source, &text).map_err(|e| format!("{}: {e}", source.display()))
    }

    fn parse(source: &Path, text: &str) -> Result<Guest, String> {
        let mut guest = Guest {
            source: source.to_owned(),
            flags: words("-O2"),
            link: Vec::new(),
            with: Vec::new(),
            library: Vec::new(),
            plugin: Vec::new(),
            archive: Vec::new(),
            needs: Vec::new(),
            scopes: words("memory"),
            not_by: Vec::new(),
            expect: None,
            fails: None,
            attempts: 100,
            timeout: Duration::from_secs(10),
            elements: None,
        };
        let beside = |value: &str| {
            value
                .split_whitespace()
                .map(|name| source.with_file_name(name))
                .collect()
        };
        for line in text.lines().filter_map(|line| line.strip_prefix("//# ")) {
            let (key, value) = line.split_once(": ").ok_or(format!("'{line}' is not 'key: value'"))?;
            match key {
                "flags" => guest.flags = words(value),
                "link" => guest.link = words(value),
                "with" => guest.with = beside(value),
                "library" => guest.library = beside(value),
                "plugin" => guest.plugin = beside(value),
                "archive" => guest.archive = beside(value),
                "needs" => guest.needs = words(value),
                "scopes" => guest.scopes = words(value),
                "not-by" => guest.not_by = words(value),
                "expect" => guest.expect = Some(ending(value)?),
                "fails" => guest.fails = Some(ending(value)?),
                "chaos" => guest.attempts = number(value)?,
                "timeout" => guest.timeout = seconds(value)?,
                "elements" => guest.elements = Some(number(value)?),
                // For readers and benchmarks.
                "threads" | "kind" | "accesses" => {}
                _ => return Err(format!("'{key}' is not a directive")),
            }
        }
        Ok(guest)
    }

    /// All guests of a directory that say how they end, by name.
    pub fn all_in(directory: &Path) -> Result<Vec<Guest>, String> {
        let mut guests = Guest::programs_in(directory)?;
        // The others are parts of programs, or for tests of their own.
        guests.retain(|guest| guest.expect.is_some() || guest.fails.is_some());
        Ok(guests)
    }

    /// All source files of a directory and those below it, by name.
    pub fn programs_in(directory: &Path) -> Result<Vec<Guest>, String> {
        let failed = |e| format!("cannot read {}: {e}", directory.display());
        let mut guests = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                guests.extend(Guest::programs_in(&path)?);
            } else if path.extension().is_some_and(|e| e == "c" || e == "cpp") {
                guests.push(Guest::read(&path)?);
            }
        }
        guests.sort_by_key(Guest::name);
        Ok(guests)
    }

    /// The file's name, or its directory's if the file is a `main`.
    pub fn name(&self) -> String {
        let named = match self.source.file_stem() {
            Some(stem) if stem == "main" => self.source.parent().and_then(Path::file_name),
            stem => stem,
        };
        named.unwrap_or_default().to_string_lossy().into_owned()
    }

    pub fn is_recorded_by(&self, method: &str) -> bool {
        !self.not_by.iter().any(|other| other == method)
    }

    pub fn is_cxx(&self) -> bool {
        is_cxx(&self.source)
    }

    /// Skips the test if this machine lacks something the guest needs.
    pub fn check_needs(&self) -> Checked {
        for need in &self.needs {
            match need.as_str() {
                "avx2" => {
                    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
                    if !info.contains(" avx2") {
                        return skipped("this processor has no AVX2");
                    }
                }
                // Known to the tool only; a link error says what is missing.
                "openmp" => {}
                other => return failed(format!("nobody knows how to look for '{other}'")),
            }
        }
        Ok(())
    }

    /// Builds it in the sandbox and returns the program's path there.
    pub fn build(&self, sandbox: &Sandbox, more_flags: &[&str]) -> Checked<PathBuf> {
        self.check_needs()?;
        let mut link = Vec::new();
        for source in self.library.iter().chain(&self.plugin) {
            let name = stem(source);
            let flags = ["-fPIC", "-shared", "-o", &format!("lib{name}.so")];
            self.compile(sandbox, &[source], &flags, more_flags)?;
        }
        for source in &self.library {
            link.extend([
                "-L.".to_owned(),
                format!("-l{}", stem(source)),
                "-Wl,-rpath,$ORIGIN".to_owned(),
            ]);
        }
        if !self.archive.is_empty() {
            let mut objects = Vec::new();
            for source in &self.archive {
                let object = format!("{}.o", stem(source));
                self.compile(sandbox, &[source], &["-c", "-o", &object], more_flags)?;
                objects.push(object);
            }
            let archive = sandbox.other("ar", ["rcs", "libguest.a"]).args(&objects);
            sandbox.run(&archive)?.expect_status(0)?;
            link.push("libguest.a".to_owned());
        }
        link.extend(self.link.iter().cloned());
        let mut sources = vec![&self.source];
        sources.extend(&self.with);
        let name = self.name();
        let mut output = vec!["-o", name.as_str()];
        output.extend(link.iter().map(String::as_str));
        self.compile(sandbox, &sources, &output, more_flags)?;
        Ok(sandbox.work().join(name))
    }

    fn compile(&self, sandbox: &Sandbox, sources: &[&PathBuf], last: &[&str], more_flags: &[&str]) -> Checked {
        let is_cxx = sources.iter().any(|source| is_cxx(source));
        let (driver, standard) = if is_cxx {
            ("c++", "-std=c++20")
        } else {
            ("cc", "-std=gnu11")
        };
        let line = sandbox
            .refrain([driver, standard, "-g", "-pthread"])
            .args(&self.flags)
            .args(more_flags)
            .args(sources)
            .args(last);
        sandbox.run(&line)?.expect_status(0)?;
        Ok(())
    }
}

fn is_cxx(source: &Path) -> bool {
    source.extension().is_some_and(|extension| extension == "cpp")
}

fn stem(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn words(value: &str) -> Vec<String> {
    value.split_whitespace().map(str::to_owned).collect()
}

fn number(value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| format!("'{value}' is not a number"))
}

fn seconds(value: &str) -> Result<Duration, String> {
    let seconds = value.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    seconds.ok_or(format!("'{value}' is not a number of seconds"))
}

fn ending(value: &str) -> Result<Ending, String> {
    match words(value).iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["pass"] => Ok(Ending::Exit(0)),
        ["assert"] => Ok(Ending::Signal(6)),
        ["hang"] => Ok(Ending::Hang),
        ["exit", code] => Ok(Ending::Exit(number(code)? as i32)),
        ["signal", "ABRT"] => Ok(Ending::Signal(6)),
        ["signal", "SEGV"] => Ok(Ending::Signal(11)),
        _ => Err(format!("'{value}' is not a way to end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_understood() {
        let text = "// Why.\n//# flags: -O1 -DX\n//# fails: signal SEGV\n//# chaos: 7\n//# with: b.c\nint main;";
        let guest = Guest::parse(Path::new("dir/main.c"), text).expect("a good head");
        assert_eq!(guest.name(), "dir");
        assert_eq!(guest.flags, ["-O1", "-DX"]);
        assert_eq!(guest.with, [Path::new("dir/b.c")]);
        assert_eq!((guest.fails, guest.attempts), (Some(Ending::Signal(11)), 7));
    }

    #[test]
    fn mistakes_in_heads_are_reported() {
        for wrong in ["//# flag: -O1", "//# fails: badly", "//# chaos: many", "//# fails"] {
            assert!(Guest::parse(Path::new("a.c"), wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn all_guests_have_good_heads() {
        for directory in ["coverage", "bugs", "probes", "turns", "ordered", "alone"] {
            Guest::all_in(&crate::tool::guests().join(directory)).expect("good heads");
        }
    }
}
