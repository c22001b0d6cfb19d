//! Whole traces (`refrain trace`) and the bitcode that is kept for them (`refrain units`): what a trace says is what the code allows, and the
//! numbers in it are those of the bitcode.
use crate::Checked;
use crate::command::Ended;
use crate::failed;
use crate::guest::Guest;
use crate::interrupted::SmallDisk;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub fn trials() -> Result<Vec<Trial>, String> {
    type Check = fn(&Sandbox, &Guest) -> Checked;
    let all: [(&str, &str, Check); 8] = [
        ("trace_followed", "figure3.c", followed_figure3),
        ("trace_followed_cxx", "pool.cpp", followed_pool),
        ("trace_text", "figure3.c", text),
        ("trace_inputs", "reads.c", inputs),
        ("trace_full_disk", "racey.c", full_disk),
        ("trace_refused", "ends.c", refused),
        ("units_bitcode", "pool.cpp", bitcode),
        ("units_built_in_parts", "figure3.c", built_in_parts),
    ];
    let trials = all.into_iter().map(|(name, source, check)| {
        let guest = Guest::read(&tool::guests().join("deterministic").join(source))?;
        Ok(trial(format!("deterministic/{name}"), move |s| check(s, &guest)))
    });
    trials.collect()
}

fn trace(sandbox: &Sandbox, program: &Path, arguments: &[&str]) -> Checked<Ended> {
    let line = sandbox.refrain(["trace", "-o", "trace", "--"]).arg(program);
    sandbox.run(&line.args(arguments).within(LIMIT))?.expect_status(0)
}

fn check(sandbox: &Sandbox, directory: &str) -> Checked<Ended> {
    sandbox.run(&sandbox.refrain(["trace", "--check", directory]).within(LIMIT))
}

/// Every thread goes from block to block as the code allows.
fn followed(sandbox: &Sandbox, guest: &Guest, arguments: &[&str]) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    trace(sandbox, &program, arguments)?;
    let ended = check(sandbox, "trace")?.expect_status(0)?;
    let lines = ended.stdout_text();
    let first = lines.lines().next().unwrap_or_default();
    require(
        first.starts_with("t0  ") && !first.contains(" 0 ways") && !first.contains(" 0 values"),
        || ended.told("expected blocks, ways and values of thread 0"),
    )?;
    require(lines.lines().all(|line| line.ends_with(": as the code allows")), || {
        ended.told("expected ways that the code has")
    })?;
    is_noticed(sandbox)
}

/// One flipped bit in a trace is nearly always another way, or no trace at all; and whatever it is, it is said by a sentence.
fn is_noticed(sandbox: &Sandbox) -> Checked {
    let file = sandbox.work().join("trace/thread-0.trace");
    let whole = fs::read(&file)?;
    let (mut noticed, mut tried) = (0, 0);
    for offset in (64..200).step_by(5) {
        let mut damaged = whole.clone();
        damaged[offset] ^= 1 << (offset % 8);
        fs::write(&file, &damaged)?;
        let ended = check(sandbox, "trace")?;
        require(matches!(ended.status, 0 | 1 | 3), || ended.told("expected an answer"))?;
        noticed += u32::from(ended.status != 0);
        tried += 1;
    }
    fs::write(&file, &whole)?;
    require(noticed * 4 > tried, || {
        format!("{noticed} of {tried} flipped bits were noticed")
    })
}

fn followed_figure3(sandbox: &Sandbox, guest: &Guest) -> Checked {
    followed(sandbox, guest, &["2", "4", "0"])
}

fn followed_pool(sandbox: &Sandbox, guest: &Guest) -> Checked {
    followed(sandbox, guest, &[])
}

/// What main does in `worker`, for people. Addresses and numbers over all threads are not the same everywhere.
fn text(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    trace(sandbox, &program, &["1", "2", "0"])?;
    let line = sandbox.refrain(["trace", "--text", "trace", "--thread", "0"]);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    let plain = |line: &str| {
        let words = line.split(' ').map(|word| match word.strip_prefix("0x") {
            _ if word.starts_with('@') => "",
            Some(digits) if digits.len() > 4 => "0x...",
            _ => word,
        });
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    let text: Vec<String> = ended.stdout_text().lines().map(plain).collect();
    let is_enter = |line: &&String| line.trim_start().starts_with("enter") && line.contains(" worker");
    let worker: Vec<String> = text.iter().skip_while(|line| !is_enter(line)).cloned().collect();
    let end = worker.iter().position(|line| line.trim() == "leave");
    let excerpt = worker[..end.map_or(0, |end| end + 1)].join("\n") + "\n";
    let golden = guest.source.with_file_name("figure3.trace");
    let expected = fs::read_to_string(&golden)?;
    require(excerpt == expected, || {
        format!("{} is not\n{excerpt}", golden.display())
    })
}

/// Which call brought which bytes.
fn inputs(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    sandbox.write("numbers", "10 1")?;
    trace(sandbox, &program, &["numbers"])?;
    let line = sandbox.refrain(["trace", "--text", "trace", "--thread", "0"]);
    let text = sandbox.run(&line)?.expect_status(0)?.stdout_text();
    let mut lines = text.lines().skip_while(|line| line.trim() != "read = 4");
    let brought = lines.nth(1).unwrap_or_default();
    let is_right = brought.trim_start().starts_with("brought 4 bytes to 0x") && brought.ends_with("[31, 30, 20, 31]");
    require(is_right, || {
        format!("expected the bytes of \"10 1\" behind a read, found {brought:?}")
    })
}

/// Where there is no room, the trace ends; what is there can be read and followed.
fn full_disk(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    let disk = SmallDisk::mount(sandbox, "600k")?;
    let directory = disk.path().join("trace").to_string_lossy().into_owned();
    let line = sandbox
        .refrain(["trace", "-o", &directory, "--"])
        .arg(&program)
        .within(LIMIT);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    let says = "the trace ends before the run does: there was no room";
    require(ended.stderr_text().contains(says), || {
        ended.told("expected that it is cut")
    })?;
    let ended = check(sandbox, &directory)?.expect_status(0)?;
    require(ended.stderr_text().contains(says), || {
        ended.told("expected that it is cut")
    })?;
    require(ended.stdout_text().contains("as the code allows"), || {
        ended.told("expected a way")
    })
}

fn refused(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let line = sandbox.refrain(["trace", "-o", "trace", "--"]).arg(&program).arg("0");
    sandbox
        .run(&line)?
        .expect_status(2)?
        .expect_refusal(&["refrain cc --det"])?;
    let line = sandbox.refrain(["units"]).arg(&program);
    sandbox
        .run(&line)?
        .expect_status(2)?
        .expect_refusal(&["refrain cc --det"])?;
    let line = sandbox.refrain(["trace"]).arg(&program);
    sandbox
        .run(&line)?
        .expect_status(2)?
        .expect_refusal(&["refrain trace -o DIR"])?;
    // Built again, it is another program.
    let program = guest.build(sandbox, &["--det"])?;
    trace(sandbox, &program, &["0"])?;
    guest.build(sandbox, &["--det", "-O1"])?;
    check(sandbox, "trace")?
        .expect_status(3)?
        .expect_refusal(&["trace it again"])?;
    Ok(())
}

fn listed(sandbox: &Sandbox, program: &Path, more: &[&str]) -> Checked<Vec<Value>> {
    let line = sandbox.refrain(["units", "--json"]).args(more).arg(program);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    match serde_json::from_slice(&ended.stdout) {
        Ok(Value::Array(units)) => Ok(units),
        _ => failed(ended.told("expected a list in JSON")),
    }
}

/// The units become one valid module, and their blocks have the numbers and successors that the table says.
fn bitcode(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &["--det"])?;
    merged(sandbox, &program, 1)
}

fn merged(sandbox: &Sandbox, program: &Path, expected: usize) -> Checked {
    let directory = sandbox.work().join("units");
    let _ = fs::remove_dir_all(&directory);
    let units = listed(sandbox, program, &["-o", "units"])?;
    let mut files: Vec<_> = fs::read_dir(&directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Checked<_>>()?;
    files.sort();
    require(files.len() == expected && units.len() == expected, || {
        format!("expected {expected} units, found {files:?}")
    })?;
    let line = sandbox.other("llvm-link-22", ["-o", "merged.bc"]).args(&files);
    sandbox.run(&line)?.expect_status(0)?;
    let line = sandbox.other("opt-22", ["-passes=verify", "-disable-output", "merged.bc"]);
    sandbox.run(&line)?.expect_status(0)?;
    for (unit, file) in units.iter().zip(&files) {
        let line = sandbox.other("llvm-dis-22", ["-o", "-"]).arg(file);
        let text = sandbox.run(&line)?.expect_status(0)?.stdout_text();
        let (firsts, names) = (&unit["first_blocks"], &unit["names"]);
        let functions = functions_of(&text);
        require(names.as_array().map_or(0, Vec::len) == functions.len(), || {
            format!("{} functions in {}, and not {names}", functions.len(), file.display())
        })?;
        for (index, (name, blocks)) in functions.iter().enumerate() {
            let first = firsts[index].as_u64().unwrap_or(0);
            require(names[index] == name.as_str(), || {
                format!("{name} is not {}", names[index])
            })?;
            for (number, successors) in (first..).zip(blocks) {
                let expected: Vec<Value> = successors.iter().map(|next| Value::from(first + next)).collect();
                let listed = &unit["successors"][number as usize];
                require(*listed == Value::Array(expected.clone()), || {
                    format!(
                        "block {number} of {name} leads to {listed} by the table, and to {expected:?} in the bitcode"
                    )
                })?;
            }
        }
    }
    Ok(())
}

/// Of every function in the text of a module: its name, and for each block the indices of those that it leads to.
fn functions_of(text: &str) -> Vec<(String, Vec<Vec<u64>>)> {
    let mut functions = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("define ").and_then(|line| line.split_once('@')) else {
            continue;
        };
        let name = name.1.split('(').next().unwrap_or_default().to_owned();
        let mut labels: BTreeMap<String, u64> = BTreeMap::new();
        let mut leads: Vec<Vec<String>> = Vec::new();
        for line in lines.by_ref().take_while(|line| *line != "}") {
            let label = line
                .split_once(':')
                .filter(|_| !line.starts_with(' '))
                .map(|(label, _)| label);
            if label.is_some() || leads.is_empty() {
                labels.insert(label.unwrap_or_default().to_owned(), leads.len() as u64);
                leads.push(Vec::new());
            }
            let ends = line.split("label %").skip(1).map(|rest| {
                let end = rest.find([',', ' ', ']']).unwrap_or(rest.len());
                rest[..end].to_owned()
            });
            if let Some(last) = leads.last_mut() {
                last.extend(ends);
            }
        }
        let index = |label: &String| labels.get(label).copied().unwrap_or(u64::MAX);
        functions.push((
            name,
            leads.iter().map(|leads| leads.iter().map(index).collect()).collect(),
        ));
    }
    functions
}

const OTHER_UNIT: &str = "\
extern int size;
__attribute__((noinline)) static int odd(int n) { return n % 3 == 1 ? n * 7 : n; }
int twice(int n) { return n > size ? 2 * odd(n) : n; }
";

/// Objects, a static library, and link-time optimisation: the units of the program are those of its parts.
fn built_in_parts(sandbox: &Sandbox, guest: &Guest) -> Checked {
    sandbox.write("other.c", OTHER_UNIT)?;
    let source = guest.source.to_string_lossy().into_owned();
    let build = |arguments: &[&str]| {
        let line = sandbox
            .refrain(["cc", "--det", "-O2", "-g", "-pthread"])
            .args(arguments);
        sandbox.run(&line.within(LIMIT))?.expect_status(0)
    };
    build(&["-c", &source, "-o", "figure3.o"])?;
    build(&["-c", "other.c"])?;
    let line = sandbox.other("ar", ["rcs", "libother.a", "other.o"]);
    sandbox.run(&line)?.expect_status(0)?;
    // Each with how many units it has: with -flto the program is one.
    let ways: [(&[&str], usize); 5] = [
        (&["figure3.o", "other.o"], 2),
        (
            &[
                "figure3.o",
                "-Wl,--whole-archive",
                "libother.a",
                "-Wl,--no-whole-archive",
            ],
            2,
        ),
        (&[&source, "other.c", "-ffunction-sections", "-Wl,--gc-sections"], 2),
        (&[&source, "other.c", "-flto", "-fuse-ld=lld"], 1),
        (&[&source, "other.c", "-flto=thin", "-fuse-ld=lld"], 2),
    ];
    for (way, units) in ways {
        build(&[way, &["-o", "program"]].concat())?;
        let program = sandbox.work().join("program");
        merged(sandbox, &program, units)?;
        let _ = fs::remove_dir_all(sandbox.work().join("trace"));
        trace(sandbox, &program, &["2", "4", "0"])?;
        check(sandbox, "trace")?.expect_status(0)?;
    }
    Ok(())
}
