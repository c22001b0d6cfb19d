//! What a compiler command line asks for.
use crate::driver::Language;
use std::ffi::OsString;
use std::fs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    Information,
    Preprocess,
    Compile,
    Link,
    LinkRelocatable,
}

/// Link-time optimisation: none; of each module by itself; of all of them as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lto {
    None,
    Thin,
    Full,
}

#[derive(Debug)]
pub struct Request {
    pub goal: Goal,
    pub has_cxx_input: bool,
    /// The user's own options keep line numbers and types.
    pub has_debug_types: bool,
    pub is_fortified: bool,
    pub lto: Lto,
    pub is_fat_lto: bool,
    /// Of optimisation, if it is said: 0 to 3.
    pub level: Option<char>,
    /// The option that names one.
    pub linker: Option<String>,
    is_static: bool,
    is_other_machine: Option<String>,
    sanitizer: Option<String>,
}

/// Options whose value is the next argument, so that the value is not taken for an input.
const WITH_VALUE: &[&str] = &[
    "-o",
    "-x",
    "-I",
    "-L",
    "-l",
    "-D",
    "-U",
    "-F",
    "-B",
    "-T",
    "-u",
    "-z",
    "-e",
    "-h",
    "-A",
    "-G",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-isysroot",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-include-pch",
    "-cxx-isystem",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xlinker",
    "-Xclang",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xanalyzer",
    "-Xarch_host",
    "-mllvm",
    "-target",
    "-arch",
    "-framework",
    "-rpath",
    "-soname",
    "--param",
    "--sysroot",
    "--output",
    "--include-directory",
    "--define-macro",
    "--library-directory",
    "-dumpbase",
    "-dumpdir",
    "-aux-info",
    "-serialize-diagnostics",
    "--serialize-diagnostics",
    "-working-directory",
    "--config",
];

/// With any of these clang only prints something.
const INFORMATION: &[&str] = &[
    "--version",
    "--help",
    "-dumpversion",
    "-dumpmachine",
    "-cc1",
    "-cc1as",
    "-cc1gen-reproducer",
];

const CXX_EXTENSIONS: &[&str] = &[
    "cc", "cp", "cxx", "cpp", "c++", "CPP", "C", "ii", "mm", "hh", "hpp", "hxx", "cppm", "ixx",
];

/// Compiling a header makes a precompiled one, and links nothing.
const HEADER_EXTENSIONS: &[&str] = &["h", "hh", "hpp", "hxx", "H"];

impl Request {
    pub fn parse(language: Language, arguments: &[OsString]) -> Result<Request, String> {
        let mut words = Vec::new();
        expand(
            arguments.iter().map(|argument| argument.to_string_lossy().into_owned()),
            &mut words,
            0,
        )?;
        let mut request = Request {
            goal: Goal::Link,
            has_cxx_input: language == Language::Cxx,
            has_debug_types: false,
            is_fortified: false,
            lto: Lto::None,
            is_fat_lto: false,
            level: None,
            linker: None,
            is_static: false,
            is_other_machine: None,
            sanitizer: None,
        };
        let mut inputs = 0;
        let mut information = false;
        let mut only_names = false;
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if only_names || word == "-" || !word.starts_with('-') {
                inputs += 1;
                let extension = word.rsplit_once('.').map_or("", |(_, extension)| extension);
                request.has_cxx_input |= CXX_EXTENSIONS.contains(&extension);
                if HEADER_EXTENSIONS.contains(&extension) {
                    request.stop_at(Goal::Compile);
                }
                continue;
            }
            let value = if WITH_VALUE.contains(&word) { words.next() } else { None };
            only_names = word == "--";
            information |= INFORMATION.contains(&word) || word.starts_with("-print-") || word.starts_with("--print-");
            request.option(word, value.unwrap_or(""));
        }
        if information || inputs == 0 {
            request.goal = Goal::Information;
        }
        Ok(request)
    }

    fn option(&mut self, word: &str, value: &str) {
        match word {
            "-c" | "-S" | "--compile" | "--assemble" => self.stop_at(Goal::Compile),
            "-E" | "-M" | "-MM" | "-fsyntax-only" | "--preprocess" | "--analyze" => self.stop_at(Goal::Preprocess),
            "-r" | "--relocatable" => self.stop_at(Goal::LinkRelocatable),
            "-static" | "--static" | "-static-pie" => self.is_static = true,
            "-x" => self.input_language(value),
            "-m32" | "-mx32" | "-m16" => self.is_other_machine = Some(word.to_string()),
            "-target" => self.machine(value),
            "-g0" | "-ggdb0" => self.has_debug_types = false,
            "-fno-lto" => self.lto = Lto::None,
            "-flto=thin" => self.lto = Lto::Thin,
            "-ffat-lto-objects" => self.is_fat_lto = true,
            "-fno-fat-lto-objects" => self.is_fat_lto = false,
            "-Ofast" => self.level = Some('3'),
            "-O" => self.level = Some('1'),
            _ => self.joined_option(word),
        }
    }

    fn joined_option(&mut self, word: &str) {
        if let Some(language) = word.strip_prefix("-x") {
            self.input_language(language);
        } else if let Some(machine) = word.strip_prefix("--target=") {
            self.machine(machine);
        } else if let Some(names) = word.strip_prefix("-fsanitize=") {
            // These have a shadow memory of their own where ours is; undefined-behaviour checks have none.
            let shadowed = ["thread", "address", "memory", "hwaddress", "dataflow", "leak"];
            self.sanitizer = names
                .split(',')
                .find(|name| shadowed.contains(name))
                .map(String::from)
                .or(self.sanitizer.take());
        } else if word.contains("-D_FORTIFY_SOURCE") {
            self.is_fortified = true;
        } else if word == "-flto" || word.starts_with("-flto=") {
            self.lto = Lto::Full;
        } else if word.starts_with("-fuse-ld=") || word.starts_with("--ld-path=") {
            self.linker = Some(word.to_owned());
        } else if let Some(level) = word.strip_prefix("-O") {
            // -Os and -Oz are kept with each function.
            self.level = Some(match level {
                "0" | "1" | "2" => level.chars().next().unwrap_or('2'),
                _ if level.starts_with(|c: char| c.is_ascii_digit()) => '3',
                _ => '2',
            });
        } else if is_debug_option(word) {
            self.has_debug_types = !keeps_lines_only(word);
        }
    }

    fn input_language(&mut self, name: &str) {
        self.has_cxx_input |= name.contains("c++");
        if name.ends_with("-header") {
            self.stop_at(Goal::Compile);
        }
    }

    /// Of several such options the one that stops earliest counts.
    fn stop_at(&mut self, goal: Goal) {
        let rank = |goal: Goal| match goal {
            Goal::Information => 0,
            Goal::Preprocess => 1,
            Goal::Compile => 2,
            Goal::LinkRelocatable => 3,
            Goal::Link => 4,
        };
        if rank(goal) < rank(self.goal) {
            self.goal = goal;
        }
    }

    fn machine(&mut self, name: &str) {
        let ours = (name.starts_with("x86_64") || name.starts_with("amd64"))
            && name.contains("linux")
            && !name.contains("x32");
        self.is_other_machine = if ours { None } else { Some(format!("target {name}")) };
    }

    pub fn refuse_unsupported(&self) -> Result<(), String> {
        if matches!(self.goal, Goal::Information | Goal::Preprocess) {
            return Ok(());
        }
        if let Some(name) = &self.sanitizer {
            return Err(format!(
                "-fsanitize={name} cannot be combined with recording: both keep a shadow of the program's memory. \
                 Build once with each"
            ));
        }
        if let Some(machine) = &self.is_other_machine {
            return Err(format!(
                "{machine} is not supported: only x86-64 Linux programs can be recorded"
            ));
        }
        if self.is_static && self.goal == Goal::Link {
            return Err("-static is not supported: the recorder is a shared library. Link dynamically".to_string());
        }
        Ok(())
    }
}

/// -g, -g2, -ggdb3, -gdwarf-5, -gline-tables-only …, but not -gsplit-dwarf or -gz, which say nothing about what is kept.
fn is_debug_option(word: &str) -> bool {
    let Some(rest) = word.strip_prefix("-g") else {
        return false;
    };
    rest.is_empty()
        || rest.chars().all(|c| c.is_ascii_digit())
        || (rest.starts_with("gdb") && rest != "gdb0")
        || rest.starts_with("dwarf")
        || ["line-tables-only", "mlt", "line-directives-only", "full", "lldb"].contains(&rest)
}

fn keeps_lines_only(word: &str) -> bool {
    ["-g1", "-ggdb1", "-gmlt", "-gline-tables-only", "-gline-directives-only"].contains(&word)
}

/// Response files, which may name others. clang gets them unexpanded; we only look inside.
fn expand(words: impl Iterator<Item = String>, out: &mut Vec<String>, depth: usize) -> Result<(), String> {
    for word in words {
        match word.strip_prefix('@').map(fs::read) {
            // What cannot be read is for clang to complain about.
            None | Some(Err(_)) => out.push(word),
            Some(Ok(_)) if depth > 16 => return Err(format!("the response file {word} contains itself")),
            Some(Ok(bytes)) => expand(split(&String::from_utf8_lossy(&bytes)).into_iter(), out, depth + 1)?,
        }
    }
    Ok(())
}

/// GNU rules: white space separates, quotes and backslashes protect.
pub fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (_, Some(open)) if c == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            _ if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn response_files_are_split_like_a_shell_would() {
        let words = split("-DA='x y' -o \"out file\"\n\\\"q\\\" '' -c\ta.c");
        assert_eq!(words, ["-DA=x y", "-o", "out file", "\"q\"", "", "-c", "a.c"]);
    }
}
