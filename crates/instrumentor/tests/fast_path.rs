//! What the pass emits around an access is what `runtime_abi::fast_path` says: the simulated machine runs that table.
mod support;

use instrumentor::driver::Language;
use runtime_abi::ThreadSlot;
use runtime_abi::fast_path;
use runtime_abi::fast_path::Step;
use std::collections::BTreeMap;
use std::fs;
use std::mem::offset_of;
use support::directory;
use support::refrain;
use support::run_ok;

const PROGRAM: &str = "
long read_it(long *place) { return *place; }
void write_it(long *place, long value) { *place = value; }
";

/// The lines of a function, by block; the first block has no name.
fn blocks(text: &str, function: &str) -> BTreeMap<String, Vec<String>> {
    let start = text
        .match_indices("define ")
        .map(|(at, _)| at)
        .find(|at| {
            text[*at..]
                .lines()
                .next()
                .is_some_and(|line| line.contains(&format!("@{function}(")))
        })
        .expect(function);
    let body = text[start..].split("\n}").next().unwrap_or_default();
    let mut blocks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in body.lines().skip(1) {
        match line.split_once(':') {
            Some((label, _)) if !line.starts_with(' ') && !label.is_empty() => name = label.to_owned(),
            _ => blocks.entry(name.clone()).or_default().push(line.trim().to_owned()),
        }
    }
    blocks
}

/// What a line is, if it is a step. `fields`: the names that are known to be of the slot, with their offsets.
fn step(line: &str, fields: &mut BTreeMap<String, usize>) -> Option<Step> {
    let words: Vec<&str> = line.split([' ', ',', '(']).filter(|word| !word.is_empty()).collect();
    let slot = |fields: &BTreeMap<String, usize>| words.iter().rev().find_map(|word| fields.get(*word).copied());
    if line.contains("load ptr, ptr") {
        // The slot's address, from the thread-local variable.
        fields.insert(words[0].to_owned(), 0);
        return None;
    }
    if line.contains("getelementptr") && !line.contains("call") {
        let base = words.iter().find_map(|word| fields.get(*word).copied())?;
        let offset = words.iter().skip_while(|word| **word != "i64").nth(1)?;
        fields.insert(words[0].to_owned(), base + offset.parse::<usize>().ok()?);
        return None;
    }
    if line.contains("= load atomic") {
        return Some(Step::LoadChunkWord);
    }
    if line.contains("= load i64") {
        return Some(match slot(fields) {
            Some(offset) if offset == offset_of!(ThreadSlot, count) => Step::LoadCount,
            Some(offset) if offset == offset_of!(ThreadSlot, gate) => Step::LoadGate,
            Some(offset) if offset == offset_of!(ThreadSlot, exclusive) => Step::LoadExclusive,
            Some(offset) if offset == offset_of!(ThreadSlot, seen) => Step::LoadSeen,
            Some(offset) => panic!("{line} loads offset {offset} of the slot"),
            None => Step::Access,
        });
    }
    if line.starts_with("store") {
        return Some(match slot(fields) {
            Some(offset) if offset == offset_of!(ThreadSlot, count) => Step::StoreCount,
            Some(offset) if offset == offset_of!(ThreadSlot, window) => match words[3] {
                "1" => Step::OpenWindow,
                _ => Step::CloseWindow,
            },
            Some(offset) => panic!("{line} stores to offset {offset} of the slot"),
            None => Step::Access,
        });
    }
    if line.starts_with("br i1") {
        return Some(Step::Branch);
    }
    line.contains("@__refrain_").then_some(Step::Call)
}

fn steps(lines: &[String], fields: &mut BTreeMap<String, usize>) -> Vec<Step> {
    let is_real = |line: &&String| !line.contains("threadlocal.address");
    lines
        .iter()
        .filter(is_real)
        .filter_map(|line| step(line, fields))
        .collect()
}

fn labels(lines: &[String]) -> (String, String) {
    let branch = lines.iter().find(|line| line.starts_with("br i1")).expect("a branch");
    let mut labels = branch.split("label %").skip(1);
    let mut next = || {
        let rest = labels.next().unwrap_or_default();
        rest.split([',', ' ']).next().unwrap_or_default().to_owned()
    };
    (next(), next())
}

fn check(text: &str, function: &str, allowed: &[Step]) {
    let blocks = blocks(text, function);
    let head = &blocks[""];
    let mut fields = BTreeMap::new();
    let mut emitted = steps(head, &mut fields);
    let (fast, slow) = labels(head);
    emitted.extend(steps(&blocks[&fast], &mut fields.clone()));
    assert_eq!(emitted, allowed, "{function}: {blocks:#?}");
    // The window is closed by what is called there, which every such block has in common.
    let called = blocks[&slow]
        .iter()
        .find_map(|line| line.split_once('@')?.1.split_once('('))
        .expect("a call")
        .0;
    assert_eq!(
        steps(&blocks[&slow], &mut fields),
        [Step::Call],
        "{function}: {blocks:#?}"
    );
    let refused = steps(&self::blocks(text, called)[""], &mut BTreeMap::new());
    assert_eq!(refused, fast_path::REFUSED, "{called}");
}

fn compiled(name: &str, checks_are_called: &str) -> String {
    let directory = directory("fast_path");
    let (source, out) = (directory.join("accesses.c"), directory.join(format!("{name}.ll")));
    fs::write(&source, PROGRAM).unwrap();
    let options = [
        "-O1",
        "-S",
        "-emit-llvm",
        source.to_str().unwrap(),
        "-o",
        out.to_str().unwrap(),
    ];
    run_ok(refrain(Language::C, &options).env("REFRAIN_OUTLINE", checks_are_called));
    fs::read_to_string(&out).unwrap()
}

#[test]
fn the_pass_emits_the_steps_that_are_simulated() {
    let text = compiled("inlined", "0");
    check(&text, "read_it.refrain", fast_path::READ);
    check(&text, "write_it.refrain", fast_path::WRITE);
}

#[test]
fn checks_that_are_called_are_the_same() {
    let text = compiled("called", "1");
    check(&text, "__refrain_load8.aligned", fast_path::READ);
    check(&text, "__refrain_store8.aligned", fast_path::WRITE);
    for (function, called) in [("read_it.refrain", "load"), ("write_it.refrain", "store")] {
        let body = &blocks(&text, function)[""];
        let call = format!("@__refrain_{called}8.aligned(");
        assert!(body.iter().any(|line| line.contains(&call)), "{function}: {body:#?}");
        assert_eq!(steps(body, &mut BTreeMap::new()), [Step::Call], "{function}: {body:#?}");
    }
}
