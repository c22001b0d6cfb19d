//! `refrain explain`: of a caught bug it names the lines that are the bug.
//!
//! Which pair of accesses comes out differs from run to run, as the runs do; each table says which source lines are right.
use crate::Checked;
use crate::failed;
use crate::guest::Guest;
use crate::recording::Recorded;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

/// A bug guest, and what stands on the lines of the two accesses that may be named.
struct Expected {
    guest: &'static str,
    /// Of the thread that was misled.
    mine: &'static [&'static str],
    /// Of the other one.
    theirs: &'static [&'static str],
}

const EXPECTED: [Expected; 14] = [
    Expected {
        guest: "account.c",
        mine: &["if (deposit_done && withdrawal_done)"],
        theirs: &["withdrawal_done = 1;"],
    },
    Expected {
        guest: "wronglock.c",
        mine: &["int before = data;", "data++;", "assert(data =="],
        theirs: &["data++;"],
    },
    Expected {
        guest: "bank.c",
        mine: &["accounts[from] -= amount;", "accounts[to] += amount;"],
        theirs: &["accounts[from] -= amount;", "accounts[to] += amount;"],
    },
    Expected {
        guest: "reorder_3.c",
        mine: &["int seen_a = a[i];", "int seen_b = b[i];"],
        theirs: &["a[i] = 1;", "b[i] = -1;"],
    },
    Expected {
        guest: "stack.c",
        mine: &["if (filled &&"],
        theirs: &["filled = 1;"],
    },
    Expected {
        guest: "circular_buffer.c",
        mine: &["*item = buffer[first % ROOM];", "if (next == first)"],
        theirs: &["buffer[place % ROOM] = item;", "unsigned place = next++;"],
    },
    Expected {
        guest: "use_after_free.c",
        mine: &["(*connection->counter)++;"],
        theirs: &["old->counter = (volatile uint64_t *)"],
    },
    Expected {
        guest: "lost_wakeup.c",
        mine: &["else if (!flags[i])"],
        theirs: &["flags[i] = 1;"],
    },
    Expected {
        guest: "contest_airline.c",
        mine: &["while (!stop_sales)"],
        theirs: &["stop_sales = 1;"],
    },
    Expected {
        guest: "spin_hang.c",
        mine: &["announced[i] |= mine;", "while (announced[i] != 3)"],
        theirs: &["announced[i] |= mine;"],
    },
    Expected {
        guest: "apache_log_buffer.c",
        mine: &["memcpy(buffer + buffer_length"],
        // The compiler makes one store of two.
        theirs: &["buffer_length += length;", "buffer_length = PAGE", "static void *body("],
    },
    Expected {
        guest: "fig6_cache4j.cpp",
        mine: &["return valid(*object) ? object->value"],
        theirs: &["value = nullptr;", "object->value = value;"],
    },
    Expected {
        guest: "fig6_ftpserver.cpp",
        mine: &["writer_->bytes += reply.size();", "request_->commands++;"],
        theirs: &["writer_ = nullptr;", "request_ = nullptr;"],
    },
    // Not what is read for the message.
    Expected {
        guest: "abort_during_exit.c",
        mine: &["if (me == 1 && data_is_gone)"],
        theirs: &["{ data_is_gone = 1; }"],
    },
];

/// Bugs of which only the order of critical sections is seen: the variables are always used under one lock. Of `livelock` it depends on the recording
/// whether that is named, or the counter that both threads use in between: about every other one.
const LOCKED: [Expected; 1] = [Expected {
    guest: "lazy01.c",
    mine: &["pthread_mutex_lock(&mutex);"],
    theirs: &["pthread_mutex_lock(&mutex);"],
}];

/// Programs about what must not be said, and what used to be missed: the order of `mine` and `theirs` in each run is the
/// same, because threads sleep.
const EXPLAINED: [(Expected, &str); 6] = [
    (
        Expected {
            guest: "locked_update.c",
            mine: &["int found = account->balance;"],
            theirs: &["account->balance = balance;"],
        },
        "synchronised",
    ),
    (
        Expected {
            guest: "locked_check.c",
            mine: &["int has = shelf->item", "(*shelf->item)++"],
            theirs: &["shelf->item = NULL;"],
        },
        "synchronised",
    ),
    (
        Expected {
            guest: "reused_block.c",
            mine: &["long most = limit;"],
            theirs: &["limit = 7;"],
        },
        "unordered",
    ),
    (
        Expected {
            guest: "container.cpp",
            mine: &["REQUIRE(numbers.size() == 0);"],
            theirs: &["numbers.push_back(7);"],
        },
        "unordered",
    ),
    (
        Expected {
            guest: "thrown.cpp",
            mine: &["if (limit > 3)"],
            theirs: &["limit = 7;"],
        },
        "unordered",
    ),
    (
        Expected {
            guest: "flag.c",
            mine: &["if (shared)"],
            theirs: &["shared = 1;"],
        },
        "unordered",
    ),
];

pub fn trials() -> Result<Vec<Trial>, String> {
    let bug = |name: &str| Guest::read(&tool::guests().join("bugs").join(name));
    let mut trials = Vec::new();
    for expected in EXPECTED {
        let guest = bug(expected.guest)?;
        let name = format!("explain/{}", guest.name());
        trials.push(trial(name, move |sandbox| {
            names_the_bug(sandbox, &guest, &expected, "unordered")
        }));
    }
    for expected in LOCKED {
        let guest = bug(expected.guest)?;
        let name = format!("explain/{}", guest.name());
        trials.push(trial(name, move |sandbox| {
            names_the_bug(sandbox, &guest, &expected, "synchronised")
        }));
    }
    for (expected, order) in EXPLAINED {
        let guest = Guest::read(&tool::guests().join("explained").join(expected.guest))?;
        let name = format!("explain/{}", guest.name());
        trials.push(trial(name, move |sandbox| {
            names_the_bug(sandbox, &guest, &expected, order)
        }));
    }
    let deadlock = bug("deadlock01.c")?;
    trials.push(trial("explain/deadlock01", move |s| names_the_circle(s, &deadlock)));
    let canary = Guest::read(&tool::guests().join("probes/canary.c"))?;
    trials.push(trial("explain/no_failure", no_failure));
    trials.push(trial("explain/divergence", divergence));
    trials.push(trial("explain/unreadable", move |s| unreadable(s, &canary)));
    Ok(trials)
}

/// Catches the bug.
fn catch(sandbox: &Sandbox, guest: &Guest) -> Checked<Recorded> {
    let program = guest.build(sandbox, &[])?;
    let until = format!("--until-failure={}", guest.attempts);
    let seconds = guest.timeout.as_secs_f64().to_string();
    let extra = ["--chaos=1", &until, "--timeout", &seconds];
    let recorded = record(sandbox, "failure", &extra, &program, LIMIT)?;
    require(recorded.ended.status != 0, || recorded.ended.told("did not fail"))?;
    Ok(recorded)
}

fn explain(sandbox: &Sandbox, recorded: &Recorded, status: i32) -> Checked<Value> {
    let line = sandbox.refrain(["explain", "--json"]).arg(&recorded.directory);
    let ended = sandbox.run(&line.within(LIMIT))?.expect_status(status)?;
    serde_json::from_slice(&ended.stdout).or_else(|e| failed(ended.told(&format!("not JSON: {e}"))))
}

/// The text of the source line that a step names, if it is one of the guest's.
fn source_line(guest: &Guest, step: &Value) -> Checked<String> {
    let place = &step["place"];
    let file = place["file"].as_str().unwrap_or_default();
    let text = fs::read_to_string(&guest.source)?;
    let index = place["line"].as_u64().unwrap_or(0).saturating_sub(1) as usize;
    match text.lines().nth(index) {
        Some(line) if guest.source.ends_with(file.rsplit('/').next().unwrap_or(file)) => Ok(line.to_owned()),
        _ => failed(format!("{step} is not a place of {}", guest.source.display())),
    }
}

fn names_the_bug(sandbox: &Sandbox, guest: &Guest, expected: &Expected, order: &str) -> Checked {
    let recorded = catch(sandbox, guest)?;
    let report = explain(sandbox, &recorded, 0)?;
    let culprit = &report["culprit"];
    let frees = report["findings"].as_array().into_iter().flatten();
    let frees = frees.filter(|found| found["pattern"] == "use after free").count();
    require(frees == 0 || guest.name() != "reused_block", || {
        format!("{frees} uses after free: {}", report["findings"])
    })?;
    for (side, wanted) in [("mine", expected.mine), ("theirs", expected.theirs)] {
        let line = source_line(guest, &culprit[side])?;
        require(wanted.iter().any(|wanted| line.contains(wanted)), || {
            format!(
                "{side} is on the line '{line}', not on one of {wanted:?}: {}",
                report["conclusion"]
            )
        })?;
    }
    require(culprit["order"] == order, || format!("not {order}: {culprit}"))?;
    require(culprit["mine"]["thread"] != culprit["theirs"]["thread"], || {
        format!("one thread: {culprit}")
    })?;
    reads_well(sandbox, &recorded)
}

/// The text has a conclusion, and quotes the source. Not word for word the same one: a replay leaves open what nothing in
/// the program depends on, such as which of two values was overwritten unread.
fn reads_well(sandbox: &Sandbox, recorded: &Recorded) -> Checked {
    let line = sandbox.refrain(["explain"]).arg(&recorded.directory).within(LIMIT);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    require(
        text.contains("likely culprit: T") || text.contains("possible culprit: T"),
        || ended.told("no culprit is named"),
    )?;
    require(text.contains(" | ") && text.contains('^'), || {
        ended.told("no source line is quoted")
    })
}

fn names_the_circle(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let recorded = catch(sandbox, guest)?;
    let report = explain(sandbox, &recorded, 0)?;
    require(report["cycle"] == serde_json::json!([1, 2]), || {
        format!("no circle of T1 and T2: {}", report["cycle"])
    })?;
    for wait in report["waits"].as_array().map_or(&[][..], Vec::as_slice) {
        let Some(holder) = wait["holders"].get(0) else { continue };
        let (waits, taken) = (source_line(guest, &wait["at"])?, source_line(guest, &holder["taken"])?);
        require(
            waits.contains("pthread_mutex_lock(inner)") && taken.contains("pthread_mutex_lock(outer)"),
            || format!("waits on '{waits}' for what was taken on '{taken}'"),
        )?;
        let sentence = wait["sentence"].as_str().unwrap_or_default();
        require(sentence.contains("`a`") || sentence.contains("`b`"), || {
            format!("no lock is named: {sentence}")
        })?;
    }
    let holders = report["waits"].as_array().into_iter().flatten();
    let held = holders.filter(|wait| wait["holders"].get(0).is_some()).count();
    require(held == 2, || {
        format!("{held} threads wait for a held lock: {}", report["waits"])
    })
}

/// A run that did not fail: it says so, and shows its races all the same.
fn no_failure(sandbox: &Sandbox) -> Checked {
    let source = "#include <pthread.h>\n\
                  static volatile int racing, locked;\n\
                  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;\n\
                  static void *body(void *argument) {\n\
                  racing = 1;\n\
                  pthread_mutex_lock(&mutex); locked++; pthread_mutex_unlock(&mutex);\n\
                  return argument;\n\
                  }\n\
                  int main(void) {\n\
                  pthread_t thread;\n\
                  pthread_create(&thread, 0, body, 0);\n\
                  body(0);\n\
                  pthread_join(thread, 0);\n\
                  return racing + locked - 3;\n\
                  }\n";
    sandbox.write("fine.c", source)?;
    let compile = sandbox.refrain(["cc", "-O1", "-g", "-pthread", "fine.c", "-o", "fine"]);
    sandbox.run(&compile)?.expect_status(0)?;
    let recorded = record(sandbox, "fine-run", &[], &sandbox.work().join("fine"), LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    let report = explain(sandbox, &recorded, 0)?;
    require(report["ending"]["how"] == "success", || {
        format!("failed? {}", report["ending"])
    })?;
    let races = report["races"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = races
        .iter()
        .filter_map(|race| race["first"]["variable"].as_str())
        .collect();
    require(names == ["racing"], || {
        format!("races on {names:?} instead of racing alone")
    })
}

/// A program that does something else each time: nothing is explained, and the status says so.
fn divergence(sandbox: &Sandbox) -> Checked {
    // What inline assembly stores to memory is not recorded.
    let source = r#"#include <stdio.h>
        int main(void) {
            unsigned low;
            __asm__ volatile("rdtsc\n movl %%eax, %0" : "=m"(low) : : "eax", "edx");
            printf("%u\n", low);
            return 1;
        }
        "#;
    sandbox.write("other.c", source)?;
    let compile = sandbox.refrain(["cc", "-g", "other.c", "-o", "other"]);
    sandbox.run(&compile)?.expect_status(0)?;
    let recorded = record(sandbox, "other-run", &[], &sandbox.work().join("other"), LIMIT)?;
    let report = explain(sandbox, &recorded, 1)?;
    require(
        report["divergence"].is_object() && report["conclusion"].is_null(),
        || format!("explained what diverged: {report}"),
    )
}

fn unreadable(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let absent = sandbox
        .run(&sandbox.refrain(["explain", "no-such-run"]))?
        .expect_status(3)?;
    require(absent.stderr_text().contains("no-such-run"), || {
        absent.told("the run is not named")
    })?;
    let program = guest.build(sandbox, &[])?;
    let recorded = record(sandbox, "damaged", &[], &program, LIMIT)?;
    fs::remove_file(recorded.directory.join("thread-0.log"))?;
    let line = sandbox.refrain(["explain"]).arg(&recorded.directory);
    let ended = sandbox.run(&line)?.expect_status(3)?;
    require(ended.stderr_text().contains("thread-0.log"), || {
        ended.told("the missing file is not named")
    })
}
