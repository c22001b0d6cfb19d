//! Scripts, and other ways to execute a program than by its own name: recorded as natively, and brought back.
use crate::Checked;
use crate::recording::Recorded;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::skipped;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// What is in the directory: scripts, which all can be executed.
const FILES: [(&str, &str); 20] = [
    (
        "hello.sh",
        "#!/bin/sh\necho \"hello $1 from $0\"\nls -d hello.sh s\nexit 3\n",
    ),
    ("s", "#!/bin/sh\necho \"$0 has a short name\" $#\n"),
    ("careful.sh", "#! /bin/sh -e \necho $-\nfalse\necho never\n"),
    ("one_argument", "#!/usr/bin/env -S sh -e -u\necho \"$0 $*\"\n"),
    ("two", "#!./one with argument\necho not me\n"),
    ("one", "#!/bin/echo one\n"),
    ("three", "#!./two\n"),
    ("no_newline", "#!/bin/echo"),
    ("no_line", "echo $# arguments, and nobody is named\n"),
    ("windows", "#!/bin/sh\r\necho never\r\n"),
    ("nobody", "#!/no/such/interpreter\n"),
    ("circle", "#!./circle\n"),
    ("makefile", "all: ; @./hello.sh make || echo $$?\n"),
    (
        "kinds.bash",
        "#!/usr/bin/env bash\n\
         set -u\n\
         f() { local x=$1; echo \"f $x\"; return $((x + 1)); }\n\
         f 4; echo $?\n\
         trap 'echo usr1' USR1; kill -USR1 $$; trap 'echo bye' EXIT\n\
         for n in 1 2 3; do (exit $n) & done; wait\n\
         (sleep 0.01; exit 9) & wait $!; echo waited $?\n\
         cat <<-X | tr a-z A-Z\n\
         \there is $(echo a document)\n\
         X\n\
         read -r a b <<< 'first second third'; echo \"$b\"\n\
         diff <(printf '1\\n2\\n') <(printf '1\\n3\\n') | head -2\n\
         echo h*.sh [n]o_*; echo {a,b}{1,2}\n\
         x=$(seq 5 | while read n; do echo $((n * n)); done | paste -sd+); echo $x = $((x))\n\
         coproc cat; echo round >&${COPROC[1]}; read -r y <&${COPROC[0]}; echo $y; eval \"exec ${COPROC[1]}>&-\"\n\
         set -o pipefail; false | true; echo ${PIPESTATUS[*]}\n\
         exec 5> f5; echo five >&5; cat f5\n\
         ./hello.sh in; echo $?; . ./no_line\n",
    ),
    (
        "kinds.dash",
        "#!/bin/dash\n\
         trap 'echo int' INT; kill -INT $$; trap 'echo $? at the end' 0\n\
         i=0; while [ $i -lt 4 ]; do i=$((i + 1)); ( echo $i; exit $i ) | cat; done\n\
         { echo out; echo err >&2; } 2>&1 | sort\n\
         sleep 0.01 & p=$!; wait $p; echo $?\n\
         case $0 in *dash) echo dash;; esac\n\
         echo 'echo from stdin $0' | sh -s\n\
         ./hello.sh out || ./s $?\n\
         exec ./careful.sh\n",
    ),
    (
        "count.py",
        "#!/usr/bin/python3\nimport os, subprocess, sys\n\
         print(subprocess.run(['./hello.sh', 'python'], capture_output=True).stdout)\n\
         print(subprocess.call(['./s', 'a', 'b']), os.popen('./one_argument x').read())\n\
         sys.stdout.flush()\nos.execv('./hello.sh', ['another name', 'exec'])\n",
    ),
    (
        "list.pl",
        "#!/usr/bin/perl -w\nprint `./hello.sh perl`; system('./s', 1, 2); print $? >> 8, \"\\n\";\n",
    ),
    (
        "fields.awk",
        "#!/usr/bin/awk -f\nBEGIN { \"./s x\" | getline line; print line; system(\"./hello.sh awk\") }\n",
    ),
    (
        "passing.sh",
        "#!/bin/sh\n\
         d=$(mktemp -d) && cd \"$d\" || exit 1\n\
         printf '#!/bin/sh\\necho passing $1\\nls\\n' > t && chmod +x t && ./t 1 && cp /bin/echo ./own && ./own two\n\
         cd / && rm -r \"$d\" && echo gone\n",
    ),
    (
        "ignoring.sh",
        "#!/bin/sh\n\
         trap '' INT; bash -c 'trap \"echo not trapped\" INT; kill -INT $$; trap -p INT; echo after'\n\
         (sleep 0.01; ./hello.sh later) & wait; nohup ./s > nohup.txt; cat nohup.txt\n",
    ),
];

pub fn trials() -> Vec<Trial> {
    let lines: [(&str, &[&str]); 27] = [
        ("by_a_shell", &["sh", "-c", "./hello.sh a; echo $?"]),
        ("by_a_short_name", &["sh", "-c", "./s; ./s 1; bash -c './s 2'"]),
        ("by_env", &["env", "A=1", "./hello.sh", "env"]),
        ("by_make", &["make", "-s", "-f", "makefile"]),
        ("by_python", &["/usr/bin/python3", "count.py"]),
        ("by_xargs", &["sh", "-c", "echo a b c | xargs -n1 ./hello.sh"]),
        (
            "by_find",
            &["find", ".", "-name", "s", "-exec", "./hello.sh", "{}", ";"],
        ),
        ("by_timeout", &["timeout", "30", "./hello.sh", "in time"]),
        ("named", &["./hello.sh", "alone"]),
        ("named_briefly", &["./s", "1", "2"]),
        ("with_an_argument", &["./careful.sh"]),
        ("with_several_in_one", &["./one_argument", "a", "b"]),
        ("nested", &["./three", "more"]),
        ("nested_in_a_shell", &["sh", "-c", "./two a; ./three b c"]),
        ("without_newline", &["./no_newline"]),
        (
            "without_line_in_a_shell",
            &["sh", "-c", "./no_line a; bash -c './no_line a b'"],
        ),
        (
            "that_cannot_be",
            &["sh", "-c", "./windows; echo $?; ./nobody; echo $?; ./circle; echo $?"],
        ),
        ("of_bash", &["./kinds.bash"]),
        ("of_dash", &["./kinds.dash"]),
        ("of_bash_by_name", &["bash", "kinds.bash"]),
        ("of_python", &["./count.py"]),
        ("of_perl", &["./list.pl"]),
        ("of_awk", &["./fields.awk"]),
        ("that_pass", &["./passing.sh"]),
        ("that_ignore_signals", &["./ignoring.sh"]),
        (
            "that_signal_their_group",
            &[
                "sh",
                "-c",
                "trap 'echo usr1' USR1; kill -USR1 0; echo on; kill 0; echo never",
            ],
        ),
        (
            "through_descriptors",
            &["sh", "-c", "exec 9<hello.sh; sh /dev/fd/9 x; /proc/self/cwd/hello.sh y"],
        ),
    ];
    let mut trials: Vec<Trial> = lines
        .into_iter()
        .map(|(name, line)| trial(format!("scripts/{name}"), move |s| as_natively(s, line)))
        .collect();
    trials.push(trial("scripts/without_line", without_line));
    trials.push(trial("scripts/refused", refused));
    trials.push(trial("scripts/packed", packed));
    trials.push(trial("scripts/changed_since", changed_since));
    trials.push(trial("scripts/below_a_mount", below_a_mount));
    for guest in ["memfd", "signals", "vfork"] {
        trials.push(trial(format!("scripts/executed_{guest}"), move |s| executed(s, guest)));
    }
    trials
}

fn write_files(sandbox: &Sandbox) -> Checked {
    for (name, text) in FILES {
        let path = sandbox.write(name, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The same bytes and the same status as without us, and again in three replays.
fn as_natively(sandbox: &Sandbox, line: &[&str]) -> Checked {
    write_files(sandbox)?;
    record_as_natively(sandbox, line)?.check_replay(sandbox, 3, 0, LIMIT)
}

fn record_as_natively(sandbox: &Sandbox, line: &[&str]) -> Checked<Recorded> {
    let natively = sandbox.run(&sandbox.other(line[0], &line[1..]).var("LC_ALL", "C").within(LIMIT))?;
    let record = sandbox
        .refrain(["record", "--scope", "inputs", "-o", "run", "--"])
        .args(line)
        .var("LC_ALL", "C");
    let recorded = Recorded {
        ended: sandbox.run(&record.within(LIMIT))?,
        directory: sandbox.work().join("run"),
    };
    let same = [
        recorded.ended.status == natively.status,
        recorded.ended.stdout == natively.stdout,
        recorded.kept("stderr")? == natively.stderr,
    ];
    require(same == [true; 3], || {
        format!(
            "status, stdout, stderr as natively: {same:?}\n{}\n{}",
            natively.told("natively"),
            recorded.ended.told("recorded")
        )
    })?;
    Ok(recorded)
}

/// The kernel does not execute it, and whoever starts programs has the shell run it.
fn without_line(sandbox: &Sandbox) -> Checked {
    write_files(sandbox)?;
    let line = sandbox.refrain(["record", "--scope", "inputs", "-o", "run", "--", "./no_line", "a", "b"]);
    let recorded = Recorded {
        ended: sandbox.run(&line)?.expect_status(0)?,
        directory: sandbox.work().join("run"),
    };
    require(
        recorded.ended.stdout_text() == "2 arguments, and nobody is named\n",
        || recorded.ended.told("it printed something else"),
    )?;
    recorded.check_replay(sandbox, 3, 0, LIMIT)
}

fn refused(sandbox: &Sandbox) -> Checked {
    write_files(sandbox)?;
    for (name, words) in [
        ("./windows", "\"/bin/sh\\r\""),
        ("./nobody", "/no/such/interpreter"),
        ("./circle", "more often than the kernel allows"),
    ] {
        sandbox
            .run(&sandbox.refrain(["record", "--scope", "inputs", "--", name]))?
            .expect_status(2)?
            .expect_refusal(&[words])?;
    }
    sandbox
        .run(&sandbox.refrain(["record", "--", "./hello.sh"]))?
        .expect_status(2)?
        .expect_refusal(&["is a script for", "--scope inputs"])?;
    Ok(())
}

/// The scripts are gone, and the run is elsewhere.
fn packed(sandbox: &Sandbox) -> Checked {
    write_files(sandbox)?;
    let recorded = record_as_natively(sandbox, &["sh", "-c", "./hello.sh packed; ./s; ./passing.sh"])?;
    let unpacked = sandbox.work().join("unpacked");
    for line in [
        sandbox.refrain(["pack", "run", "-o", "archive"]),
        sandbox.refrain(["unpack", "archive", "-o", "unpacked"]),
    ] {
        sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    }
    let kept = recorded.kept("stdout")?;
    fs::remove_dir_all(&recorded.directory)?;
    for (name, _) in FILES {
        fs::remove_file(sandbox.work().join(name))?;
    }
    let line = sandbox.refrain(["replay"]).arg(&unpacked).within(LIMIT);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    require(ended.stdout == kept, || {
        ended.told("an unpacked replay printed something else")
    })
}

/// A script's text is an input: the one that was recorded counts.
fn changed_since(sandbox: &Sandbox) -> Checked {
    write_files(sandbox)?;
    let recorded = record_as_natively(sandbox, &["sh", "-c", "./hello.sh a; ./s; ./nobody"])?;
    for (name, _) in FILES {
        fs::write(sandbox.work().join(name), "#!/bin/cat\nanother text\n")?;
    }
    recorded.check_replay(sandbox, 2, 0, LIMIT)
}

/// A program whose name is that of something else for everybody who has not the same file systems mounted.
fn below_a_mount(sandbox: &Sandbox) -> Checked {
    let probe = sandbox.run(&sandbox.other("unshare", ["-Urm", "true"]))?;
    if probe.status != 0 {
        return skipped("no mount namespaces here");
    }
    executed(sandbox, "mounts")
}

/// A guest that executes programs in its own ways.
fn executed(sandbox: &Sandbox, guest: &str) -> Checked {
    write_files(sandbox)?;
    let source = tool::guests().join("executed").join(format!("{guest}.c"));
    let program: PathBuf = sandbox.work().join("program");
    let line = sandbox.other("clang-22", ["-O1", "-w", "-o"]).arg(&program).arg(source);
    sandbox.run(&line.within(LIMIT))?.expect_status(0)?;
    record_as_natively(sandbox, &["./program"])?.check_replay(sandbox, 3, 0, LIMIT)
}
