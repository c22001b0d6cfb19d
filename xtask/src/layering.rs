//! Who may depend on whom. Dependencies point inward: cli → edge → core → run-model.
use crate::command::Cargo;
use crate::command::Failure;
use crate::command::Run;
use serde_json::Value;

/// Our crates that each of our crates may use, and whether it may use anything from outside.
const ALLOWED: &[(&str, &[&str], Outside)] = &[
    // Core: values in, values out.
    ("run-model", &[], Outside::Nothing),
    ("runtime-abi", &["run-model"], Outside::Nothing),
    ("program-image", &[], Outside::Nothing),
    ("machine", &[], Outside::Nothing),
    ("thread-cells", &[], Outside::Nothing),
    ("log-format", &["run-model", "runtime-abi"], Outside::Nothing),
    ("constraint-solver", &["run-model"], Outside::Nothing),
    (
        "turn-scheduler",
        &["machine", "run-model", "runtime-abi"],
        Outside::Nothing,
    ),
    (
        "access-protocol",
        &["machine", "run-model", "runtime-abi", "log-format"],
        Outside::Nothing,
    ),
    // The judge never sees the solver it judges.
    ("schedule-checker", &["run-model"], Outside::Nothing),
    ("hybrid-schedule", &["run-model"], Outside::Nothing),
    ("failure-report", &["run-model"], Outside::Nothing),
    // What it searches for is tried at the edge, through a trait of its own.
    ("schedule-search", &["run-model"], Outside::Nothing),
    ("partial-logs", &[], Outside::Only("blake3")),
    // Edge: touches the world.
    ("instrumentor", &["run-model", "runtime-abi"], Outside::Anything),
    (
        "refrain-runtime",
        &[
            "run-model",
            "runtime-abi",
            "log-format",
            "program-image",
            "machine",
            "thread-cells",
            "turn-scheduler",
            "access-protocol",
        ],
        Outside::Only("libc"),
    ),
    ("run-store", &["run-model", "runtime-abi"], Outside::Anything),
    ("syscall-sites", &["runtime-abi"], Outside::Anything),
    (
        "replayer",
        &[
            "run-model",
            "runtime-abi",
            "log-format",
            "constraint-solver",
            "schedule-checker",
            "syscall-sites",
            "instrumentor",
            "run-store",
            "program-image",
            "failure-report",
            "schedule-search",
            "hybrid-schedule",
            "partial-logs",
        ],
        Outside::Anything,
    ),
    (
        "cli",
        &[
            "run-model",
            "log-format",
            "hybrid-schedule",
            "instrumentor",
            "run-store",
            "replayer",
            "failure-report",
            "partial-logs",
            "runtime-abi",
        ],
        Outside::Anything,
    ),
    // Who runs programs for it is behind a trait of its own.
    ("collector", &["partial-logs"], Outside::Anything),
    (
        "fleet",
        &["partial-logs", "run-store", "replayer", "collector"],
        Outside::Anything,
    ),
    // Tests only.
    (
        "simulated-machine",
        &[
            "run-model",
            "runtime-abi",
            "log-format",
            "machine",
            "access-protocol",
            "turn-scheduler",
            "constraint-solver",
            "schedule-checker",
        ],
        Outside::Anything,
    ),
    (
        "refrain-solver-lab",
        &[
            "run-model",
            "run-store",
            "replayer",
            "constraint-solver",
            "schedule-checker",
            "simulated-machine",
        ],
        Outside::Anything,
    ),
    (
        "refrain-fleet-lab",
        &["run-model", "runtime-abi", "run-store", "replayer", "partial-logs"],
        Outside::Anything,
    ),
    ("xtask", &[], Outside::Anything),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Nothing,
    Only(&'static str),
    Anything,
}

pub fn check() -> Result<(), Failure> {
    let json = Cargo::new("metadata")
        .args(["--no-deps", "--format-version", "1"])
        .output()?;
    let metadata: Value = serde_json::from_str(&json).map_err(|e| Failure::new(format!("cargo metadata: {e}")))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: Vec<String> = packages.iter().map(name).collect();
    let mut violations = Vec::new();
    for package in packages {
        let package_name = name(package);
        // Crates that are not in the table (the guest suite) may use anything.
        let Some((_, allowed, outside)) = ALLOWED.iter().find(|(known, ..)| *known == package_name) else {
            continue;
        };
        for dependency in package["dependencies"].as_array().map_or(&[][..], Vec::as_slice) {
            let dependency_name = name(dependency);
            // Tests and build scripts may look anywhere; what is shipped may not.
            if !dependency["kind"].is_null() {
                continue;
            }
            let is_fine = if ours.contains(&dependency_name) {
                allowed.contains(&dependency_name.as_str())
            } else {
                *outside == Outside::Anything || matches!(outside, Outside::Only(only) if *only == dependency_name)
            };
            if !is_fine {
                violations.push(format!("{package_name} must not depend on {dependency_name}"));
            }
        }
    }
    if violations.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(violations.join("\n  ")))
    }
}
