//! `refrain record`
use crate::Ended;
use crate::Failure;
use crate::arguments::KeepWhen;
use crate::arguments::RecordArguments;
use crate::coop;
use crate::fleet;
use crate::output::count;
use crate::output::say;
use crate::output::size;
use replayer::Attempts;
use replayer::Campaign;
use replayer::Keep;
use replayer::Method;
use replayer::Progress;
use replayer::Recorded;
use replayer::Recording;
use run_store::Instrumentation;
use run_store::RunDirectory;
use run_store::RunMeta;
use run_store::Scope;
use run_store::Store;
use run_store::UnrecordedCalls;
use std::ffi::OsString;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::time::Duration;
use std::time::Instant;

/// What the command line asks for.
pub fn campaign(arguments: RecordArguments) -> Result<Campaign, Failure> {
    Ok(Campaign {
        recording: Recording {
            command: arguments.command,
            settings: arguments.settings.settings()?,
            redact: redacted(arguments.redact)?,
            timeout: arguments.timeout,
            logging_time_max: arguments.max_time,
            wait: arguments.wait.unwrap_or(replayer::WAIT_BY_DEFAULT),
            tell_waiting: |processes| {
                say(format_args!(
                    "the program has ended; waiting for {} that it started (Ctrl-C ends them)",
                    count_processes(processes)
                ));
            },
            files: Vec::new(),
        },
        output: arguments.output,
        attempts: match arguments.until_failure {
            None => Attempts::Once,
            Some(Some(0)) => {
                return Err(Failure::usage(
                    "--until-failure=0 would never run the program; give 1 or more",
                ));
            }
            Some(at_most) => Attempts::UntilFailure { at_most },
        },
        keep: match arguments.keep {
            KeepWhen::Always => Keep::Always,
            KeepWhen::OnFailure => Keep::OnFailure,
        },
        name: None,
        is_quiet: false,
    })
}

/// The names of `--redact`, if a replay can do without their values.
fn redacted(names: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    for name in &names {
        let text = name.to_string_lossy();
        if text.is_empty() || text.contains('=') {
            return Err(Failure::usage(format!(
                "--redact: '{text}' is not the name of a variable"
            )));
        }
        if text.starts_with("LD_") || text.starts_with("REFRAIN_") {
            return Err(Failure::usage(format!(
                "--redact: a replay needs the value of {text} to start the program; it cannot be left out"
            )));
        }
    }
    for name in replayer::unknown_names(&names) {
        say(format_args!(
            "--redact: there is no variable {}",
            name.to_string_lossy()
        ));
    }
    Ok(names)
}

pub fn record(arguments: RecordArguments) -> Ended {
    let upload = arguments.upload.clone();
    fleet::check(&upload)?;
    let mut campaign = campaign(arguments)?;
    let is_partial = campaign.recording.settings.method == Method::Coop;
    if upload.upload && !is_partial && campaign.recording.settings.scope != Scope::Inputs {
        return Err(Failure::usage(
            "--upload sends what --method coop records; record with --method coop --share 25%",
        ));
    }
    let store = Store::from_environment()?;
    coop::prepare(&mut campaign, &store)?;
    let mut meter = Meter::new();
    let recorded = campaign.run(&store, |progress| meter.show(progress))?;
    meter.end();
    report(&campaign, &store, &recorded, upload.upload);
    if let Some(run) = recorded.run.as_ref().filter(|_| upload.upload) {
        // The program's status is what counts; what was recorded is on the disk.
        if let Err(failure) = fleet::upload(run, &upload) {
            say(format_args!("{}", failure.sentence));
        }
    }
    Ok(match recorded.interrupted {
        Some(signal) => (128 + signal) as u8,
        None => recorded.outcome().exit_status() as u8,
    })
}

fn report(campaign: &Campaign, store: &Store, recorded: &Recorded, is_uploaded: bool) {
    let rate = recorded.attempts as f64 / recorded.elapsed.as_secs_f64().max(0.001);
    let is_campaign = campaign.attempts != Attempts::Once;
    let Some(run) = &recorded.run else {
        if let Some(signal) = recorded.interrupted {
            say(format_args!(
                "stopped by signal {signal} after {} runs, none failed; nothing kept",
                recorded.attempts
            ));
        } else if is_campaign {
            say(format_args!(
                "{} runs, none failed ({rate:.1} per second); nothing kept",
                recorded.attempts
            ));
        } else {
            say(format_args!("the program succeeded; nothing kept"));
        }
        return;
    };
    let Some(ending) = &recorded.meta.ending else { return };
    if is_campaign {
        say(format_args!(
            "run {} failed: {} ({rate:.1} runs per second)",
            recorded.attempts, ending.outcome
        ));
    }
    let seed = recorded
        .meta
        .settings
        .chaos_seed
        .map(|seed| format!(", chaos seed {seed}"))
        .unwrap_or_default();
    let inputs = match ending.input_bytes {
        0 => String::new(),
        bytes => format!(", {} of inputs", size(bytes)),
    };
    say(format_args!(
        "recorded {}, {}, {} of log{inputs}, {}{seed} in {}",
        count(u64::from(ending.threads), "thread"),
        count(ending.events, "event"),
        size(ending.log_bytes),
        ending.outcome,
        run.path().display()
    ));
    if let Some(error) = &recorded.seal_failed {
        say(format_args!(
            "the run could not be completed, and counts as interrupted: {error}"
        ));
    }
    if let Some(reason) = &ending.truncated {
        say(format_args!(
            "the recording ends before the program did, because {reason}; the part before is usable"
        ));
    }
    if let Some(reason) = &ending.others_truncated {
        say(format_args!(
            "the recording of a process that it started ends before that did, because {reason}; the part before is usable"
        ));
    }
    if let Some(why) = &recorded.without_inputs {
        say(format_args!(
            "what came from the system is not recorded, so a replay gets it anew: {why}"
        ));
    }
    for UnrecordedCalls { path, places } in &recorded.meta.unrecorded_calls {
        say(format_args!(
            "{path}: {} in its code cannot be recorded; a replay makes such calls again",
            count(*places, "system call")
        ));
    }
    for sentence in unobserved(&recorded.meta) {
        say(format_args!("{sentence}"));
    }
    if let Some(number) = ending.unknown_call {
        say(format_args!(
            "system call {number} is not known to this version: its result is recorded, but not what it wrote"
        ));
    }
    if let Some(number) = ending.refused_call {
        say(format_args!("{}", refused(number)));
    }
    // One for which there was no room has a directory all the same.
    let is_described = |number: &u32| run.process(*number).file("run.json").is_file();
    let processes = run.processes().map_or(0, |numbers| {
        numbers.iter().filter(|number| is_described(number)).count()
    });
    if processes > 0 {
        say(format_args!(
            "{} that it started {} recorded as well: refrain info {}",
            count_processes(processes),
            if processes == 1 { "is" } else { "are" },
            spelling(run, store)
        ));
    }
    if ending.left_running > 0 {
        say(format_args!("{}", left_running(ending.left_running)));
    }
    if ending.forked {
        say(format_args!("it started processes that are not recorded"));
    }
    for (name, captured) in [("stdout", ending.stdout), ("stderr", ending.stderr)] {
        if captured.reader_gone {
            say(format_args!(
                "whoever read {name} went away before the program ended; the copy ends after {} bytes",
                captured.bytes
            ));
        } else if captured.capped {
            say(format_args!(
                "the copy of {name} ends after {} bytes, because --max-size was reached",
                captured.bytes
            ));
        } else if !captured.complete {
            say(format_args!(
                "the copy of {name} ends after {} bytes, because it could not be written",
                captured.bytes
            ));
        }
        if captured.refused {
            say(format_args!("not all of {name} could be written to where it was to go"));
        }
    }
    if let Some(error) = &recorded.latest_failed {
        say(format_args!(
            "`refrain replay` without a name will not find it: {error}"
        ));
    }
    let name = spelling(run, store);
    let settings = &recorded.meta.settings;
    if ending.overruns > 0 {
        say(format_args!("{}", overrun(ending.overruns)));
    }
    let knows_more = settings.sync_order || settings.one_at_a_time;
    if settings.scope == Scope::Inputs && ending.threads > 1 && !knows_more {
        say(format_args!(
            "only the order of their inputs is known of its threads, which may not be enough to bring it back; without --no-sync-order more is (docs/turns.md)"
        ));
    }
    match settings.method {
        Method::Coop if is_uploaded => {}
        Method::Coop => say(format_args!("send it to a server with: refrain fleet upload {name}")),
        _ => say(format_args!("replay it with: refrain replay {name}")),
    }
}

/// What a recording of one thread at a time could not wait for.
pub fn overrun(times: u32) -> String {
    format!(
        "{} a thread made no call for so long that others went on beside it: what they did to each other meanwhile may not come back",
        match times {
            1 => "once".to_owned(),
            _ => format!("{times} times"),
        }
    )
}

/// What became of a call that cannot be recorded.
pub fn refused(number: u32) -> String {
    format!(
        "it asked for {}, which refrain cannot record: it was told that this kernel has none (ENOSYS)",
        replayer::call_name(number)
    )
}

/// What a run does not have because the program was not built for it.
pub fn unobserved(meta: &RunMeta) -> Vec<String> {
    let mut sentences = Vec::new();
    let Some(ending) = &meta.ending else {
        return sentences;
    };
    let remedy =
        "build all of it with `refrain cc`, `refrain c++` or `cargo refrain`, or record it with `--scope inputs`";
    if let Some(instrumentation) = meta.instrumentation.filter(Instrumentation::is_slight) {
        sentences.push(match instrumentation.sites {
            0 => format!("no code of the program was compiled to be observed, only linked: {remedy}"),
            sites => format!(
                "hardly any of the program's code was compiled to be observed ({} in {} of code): {remedy}",
                count(sites, "place"),
                size(instrumentation.code_bytes)
            ),
        });
    } else if ending.threads > 1 && ending.events == 0 {
        sentences.push(format!(
            "nothing that its {} threads did was seen: {remedy}",
            ending.threads
        ));
    }
    if ending.unknown_threads > 0 {
        sentences.push(format!(
            "it had {} that the recorder does not know, made by other means than libc's: what these did is not recorded",
            count(u64::from(ending.unknown_threads), "thread")
        ));
    }
    sentences
}

/// What became of processes that outlive the program.
pub fn left_running(processes: u32) -> String {
    format!(
        "the program has ended; {} that it started ran on, and {} not recorded from there on (--wait S waits longer)",
        count_processes(processes as usize),
        if processes == 1 { "is" } else { "are" }
    )
}

fn count_processes(processes: usize) -> String {
    format!("{processes} process{}", if processes == 1 { "" } else { "es" })
}

/// How the run is named on a command line: briefly if it is in the store.
pub fn spelling(run: &RunDirectory, store: &Store) -> String {
    let text = if run.path().parent() == Some(store.root()) {
        run.name()
    } else {
        run.path().display().to_string()
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-' | '/' | '=' | ',' | ':');
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The progress of `--until-failure`: one line that changes on a terminal, now and then a line in a log.
pub struct Meter {
    is_terminal: bool,
    last: Instant,
    is_line_open: bool,
}

impl Meter {
    pub fn new() -> Meter {
        Meter {
            is_terminal: io::stderr().is_terminal(),
            last: Instant::now(),
            is_line_open: false,
        }
    }

    pub fn show(&mut self, progress: Progress) {
        let every = if self.is_terminal {
            Duration::from_millis(200)
        } else {
            Duration::from_secs(5)
        };
        if self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let rate = progress.attempts as f64 / progress.elapsed.as_secs_f64().max(0.001);
        if self.is_terminal {
            self.is_line_open = true;
            let line = format!(
                "\rrefrain: {} runs, {rate:.1} per second, no failure yet",
                progress.attempts
            );
            // There is nobody left to tell if this fails.
            let _ = io::stderr().lock().write_all(line.as_bytes());
        } else {
            say(format_args!(
                "{} runs, {rate:.1} per second, no failure yet",
                progress.attempts
            ));
        }
    }

    pub fn end(&mut self) {
        if self.is_line_open {
            let _ = io::stderr().lock().write_all(b"\n");
        }
    }
}
