//! What compiling costs: processor time, and bytes of code, against clang and ThreadSanitizer, with what each version of the functions has of them.
use super::Options as Common;
use super::directive;
use super::measure::Started;
use super::stem;
use super::table;
use crate::command::Failure;
use crate::command::Run;
use crate::refrain;
use crate::root;
use crate::target;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

/// A way of compiling: what the table calls it, whether it is ours, and what is added to the command line and to the environment.
struct Way {
    name: &'static str,
    is_ours: bool,
    options: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

impl Way {
    const fn new(name: &'static str, is_ours: bool, options: &'static [&'static str]) -> Way {
        Way {
            name,
            is_ours,
            options,
            variables: &[],
        }
    }
}

/// The first is what the others are compared with.
const WAYS: [Way; 6] = [
    Way::new("clang", false, &[]),
    Way::new("ThreadSanitizer", false, &["-fsanitize=thread"]),
    Way::new("refrain", true, &[]),
    Way {
        variables: &[("REFRAIN_BUILD_SCOPE", "sync")],
        ..Way::new("refrain, scope sync alone", true, &[])
    },
    Way::new("refrain --coop", true, &["--coop"]),
    Way::new("refrain --det", true, &["--det"]),
];

/// Bytes of what was compiled.
#[derive(Clone, Copy, Default)]
struct Size {
    /// All of the code.
    text: u64,
    /// Of that, the functions as they are called: the program's own code and, with `--det`, all versions.
    own: u64,
    observed: u64,
    part: u64,
    /// Checks that code calls, and what they call.
    checks: u64,
    /// Site tables, and the words of partial recordings.
    tables: u64,
    bitcode: u64,
}

/// For clang, unless the guest or the command says otherwise.
const FLAGS: &str = "-O2";

struct Options {
    common: Common,
    /// A folder with the sources, instead of the speed guests.
    folder: Option<PathBuf>,
    flags: String,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options, Failure> {
        let (mut folder, mut flags, mut others) = (None, FLAGS.to_owned(), Vec::new());
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                rest.next()
                    .ok_or_else(|| Failure::new(format!("{argument} needs a value")))
            };
            match *argument {
                "--folder" => folder = Some(PathBuf::from(value()?)),
                "--flags" => flags = value()?.to_string(),
                other => others.push(other),
            }
        }
        Ok(Options {
            common: Common::parse("build", "--guests", 3, &others)?,
            folder,
            flags,
        })
    }

    /// Is it what the page of benchmarks has?
    fn are_all(&self) -> bool {
        self.common.write && self.common.names.is_empty() && self.folder.is_none() && self.flags == FLAGS
    }

    /// What is compiled, with the flags of each.
    fn sources(&self) -> Result<Vec<(PathBuf, String)>, Failure> {
        let Some(folder) = &self.folder else {
            let sources = super::sources(&self.common.names)?;
            let flags = |source: &PathBuf| -> Result<String, Failure> {
                Ok(directive(&fs::read_to_string(source)?, "flags").unwrap_or_else(|| self.flags.clone()))
            };
            return sources
                .into_iter()
                .map(|source| Ok((source.clone(), flags(&source)?)))
                .collect();
        };
        let mut found = Vec::new();
        collect(folder, &mut found)?;
        found.sort();
        found.retain(|source| self.common.names.is_empty() || self.common.names.contains(&stem(source)));
        match found.is_empty() {
            true => Err(Failure::new(format!(
                "there are no C or C++ sources in {}",
                folder.display()
            ))),
            false => Ok(found.into_iter().map(|source| (source, self.flags.clone())).collect()),
        }
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in
        fs::read_dir(folder).map_err(|error| Failure::new(format!("cannot read {}: {error}", folder.display())))?
    {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "c" || extension == "cpp" || extension == "cc")
        {
            found.push(path);
        }
    }
    Ok(())
}

pub fn build(arguments: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    crate::setup::setup()?;
    crate::build()?;
    let folder = target().join("bench/build");
    fs::create_dir_all(&folder)?;
    let sources = options.sources()?;
    let (mut seconds, mut sizes) = (vec![Vec::new(); WAYS.len()], vec![Size::default(); WAYS.len()]);
    for repetition in 0..options.common.repetitions {
        let mut total = vec![0.0; WAYS.len()];
        for (number, (source, flags)) in sources.iter().enumerate() {
            eprintln!(
                "xtask: {} ({} of {})",
                source.display(),
                repetition + 1,
                options.common.repetitions
            );
            for (at, way) in WAYS.iter().enumerate() {
                let object = folder.join(format!("{number}.{at}.o"));
                total[at] += compile(way, source, flags, &object)?;
                if repetition == 0 {
                    sizes[at].add(&object)?;
                }
            }
        }
        for (all, of_turn) in seconds.iter_mut().zip(total) {
            all.push(of_turn);
        }
    }
    let table = rows(&seconds, &sizes);
    println!("{table}");
    if options.are_all() {
        let command = format!("cargo xtask bench build --repetitions {}", options.common.repetitions);
        table::write(&root().join("docs/benchmarks.md"), "build", &command, &table)?;
    }
    Ok(())
}

/// Compiles, and returns the seconds of processor time that it took.
fn compile(way: &Way, source: &Path, flags: &str, object: &Path) -> Result<f64, Failure> {
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let mut command = match (way.is_ours, is_c) {
        (true, _) => Command::new(refrain()),
        (false, true) => Command::new("clang-22"),
        (false, false) => Command::new("clang++-22"),
    };
    if way.is_ours {
        command.arg(if is_c { "cc" } else { "c++" });
    }
    command
        .args(flags.split_whitespace())
        .args(["-w", "-pthread"])
        .args(way.options)
        .envs(way.variables.iter().copied())
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object);
    Ok(Started::new(command)?.finish(None)?.cpu_s)
}

impl Size {
    fn add(&mut self, object: &Path) -> Result<(), Failure> {
        let sections = Run::output(Command::new("llvm-size-22").arg("-A").arg(object))?;
        self.add_sections(&sections);
        let symbols = Run::output(
            Command::new("llvm-nm-22")
                .args(["--print-size", "--format=posix"])
                .arg(object),
        )?;
        self.add_symbols(&symbols);
        Ok(())
    }

    /// Lines like ".text.unlikely.  24  0".
    fn add_sections(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(bytes)) = (words.next(), words.next().and_then(|word| word.parse::<u64>().ok()))
            else {
                continue;
            };
            match name {
                "refrain_sites" | "refrain_parts" => self.tables += bytes,
                "refrain_units" => self.bitcode += bytes,
                name if name.starts_with(".text") => self.text += bytes,
                _ => {}
            }
        }
    }

    /// Lines like "work.refrain t 40 1f": name, kind, address and size.
    fn add_symbols(&mut self, text: &str) {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, kind, _, bytes] = words[..] else { continue };
            let Some(bytes) = u64::from_str_radix(bytes, 16).ok().filter(|_| "tTwWV".contains(kind)) else {
                continue;
            };
            *if name.starts_with("__refrain_") {
                &mut self.checks
            } else if name.contains(".refrain") {
                &mut self.observed
            } else if name.contains(".coop") {
                &mut self.part
            } else {
                &mut self.own
            } += bytes;
        }
    }
}

fn rows(seconds: &[Vec<f64>], sizes: &[Size]) -> String {
    let mut table =
        "| | compiling, CPU | code | own code | observed | in part | checks | tables | bitcode |\n".to_owned();
    table += "|---|---|---|---|---|---|---|---|---|\n";
    let native = sizes[0].text as f64;
    for ((way, all), size) in WAYS.iter().zip(seconds).zip(sizes) {
        // Each turn against clang's of the same turn.
        let ratio = table::median(all.iter().zip(&seconds[0]).map(|(own, clang)| own / clang));
        let parts = [
            size.own,
            size.observed,
            size.part,
            size.checks,
            size.tables,
            size.bitcode,
        ];
        let parts: Vec<String> = parts
            .iter()
            .map(|bytes| {
                if *bytes == 0 {
                    "–".to_owned()
                } else {
                    table::bytes(*bytes as f64)
                }
            })
            .collect();
        table += &format!(
            "| {} | {:.2} s, {ratio:.2}× | {}, {:.2}× | {} |\n",
            way.name,
            table::median(all.iter().copied()),
            table::bytes(size.text as f64),
            size.text as f64 / native,
            parts.join(" | ")
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn code_is_told_apart_by_the_names_of_sections_and_functions() {
        let mut size = Size::default();
        size.add_sections("a.o  :\nsection size addr\n.text 100 0\n.text.cold 5 0\nrefrain_sites 64 0\nrefrain_units 7 0\n.data 9 0\n");
        size.add_symbols(
            "f T 0 10\nf.refrain t 10 20\nf.coop t 30 8\n__refrain_load8.cold W 0 1a\n__refrain_load8 U\nx D 0 4\n",
        );
        assert_eq!((size.text, size.tables, size.bitcode), (105, 64, 7));
        assert_eq!((size.own, size.observed, size.part, size.checks), (0x10, 0x20, 8, 0x1a));
    }
}
