//! Building and running small programs with the pass and a stand-in for the runtime.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use instrumentor::driver;
use instrumentor::driver::Language;
use instrumentor::driver::Toolchain;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::sync::OnceLock;

/// Everything a test writes lies below cargo's directory for that.
pub fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The pass of this build, and the stand-in as the runtime.
pub fn toolchain() -> &'static Toolchain {
    static TOOLS: OnceLock<Toolchain> = OnceLock::new();
    TOOLS.get_or_init(|| {
        // One directory per test binary: they run at the same time.
        let name = std::env::current_exe()
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let runtime_directory = directory(&format!("runtime-{name}"));
        let library = runtime_directory.join(runtime_abi::RUNTIME_LIBRARY);
        let mut command = Command::new("clang-22");
        command
            .arg(format!("-DABI_VERSION={}", runtime_abi::ABI_VERSION))
            .args(["-O2", "-fPIC", "-shared", "-pthread", "-o"])
            .arg(&library)
            .arg(source("support/fake_runtime.c"));
        run_ok(&mut command);
        Toolchain {
            clang: "clang-22".into(),
            clangxx: "clang++-22".into(),
            pass: instrumentor::PASS_BUILT.into(),
            runtime_directory,
        }
    })
}

pub fn run_ok(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The compiler call `refrain cc ARGUMENTS` would make, with LLVM's verifier on.
pub fn refrain(language: Language, arguments: &[&str]) -> Command {
    let tools = toolchain();
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let planned = driver::plan(tools, language, &arguments).unwrap();
    let mut command = native(language);
    command.args(planned).env("REFRAIN_VERIFY_IR", "1");
    command
}

pub fn native(language: Language) -> Command {
    Command::new(match language {
        Language::C => "clang-22",
        Language::Cxx => "clang++-22",
    })
}

/// What one run did: what anybody can see, and the stand-in's counters.
#[derive(Debug)]
pub struct Run {
    pub visible: (Option<i32>, String),
    pub counters: BTreeMap<String, u64>,
}

impl Run {
    pub fn events(&self) -> u64 {
        self.counters["events"]
    }
}

pub fn run(program: &Path, settings: &[(&str, &str)]) -> Run {
    let report = program.with_extension("report");
    let _ = fs::remove_file(&report);
    let mut command = Command::new("timeout");
    command
        .arg("60")
        .arg(program)
        // Cargo points it at the target folder, where the real runtime is.
        .env_remove("LD_LIBRARY_PATH")
        .env("FAKE_REPORT", &report)
        .envs(settings.iter().copied());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !errors.contains("fake runtime"),
        "{} {settings:?}: {errors}",
        program.display()
    );
    let counters = fs::read_to_string(&report).unwrap_or_default();
    let counters = counters.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_string(), value.parse().ok()?))
    });
    Run {
        visible: (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        ),
        counters: counters.collect(),
    }
}
