//! `refrain cc` and `refrain c++` in the place of clang: what build systems rely on.
use crate::Checked;
use crate::Problem;
use crate::command::Ended;
use crate::recording::record;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Two threads that race; small enough to be compiled many times.
const RACE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include "value.h"
static volatile unsigned shared;
static void *body(void *argument) {
    for (int i = 0; i < 2000; i++)
        shared = shared * 31 + VALUE + (argument != 0);
    return argument;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, body, NULL);
    pthread_create(&b, NULL, body, &a);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%u\n", shared);
    return 0;
}
"#;

const RACE_CXX: &str = r#"
#include <concepts>
#include <iostream>
#include <thread>
#include <vector>
template <std::integral T> struct Cell { volatile T value{}; };
static Cell<unsigned> shared;
int main() {
    std::vector<std::jthread> threads;
    for (unsigned me = 0; me < 2; me++)
        threads.emplace_back([me] {
            for (int i = 0; i < 2000; i++)
                shared.value = shared.value * 31 + me;
        });
    threads.clear();
    std::cout << shared.value << std::endl;
}
"#;

type Check = fn(&Sandbox) -> Checked;

pub fn trials() -> Vec<Trial> {
    let all: [(&str, Check); 14] = [
        ("stages", stages),
        ("dependency_files", dependency_files),
        ("response_files", response_files),
        ("several_sources", several_sources),
        ("optimisation_levels", optimisation_levels),
        ("languages", languages),
        ("questions", questions),
        ("errors", errors),
        ("odd_names_and_inputs", odd_names_and_inputs),
        ("plain_objects", plain_objects),
        ("source_lines", source_lines),
        ("inline_assembly", inline_assembly),
        ("shared_program_elements", shared_program_elements),
        ("why", why),
    ];
    all.map(|(name, check)| trial(format!("compiler/{name}"), check)).into()
}

fn write_sources(sandbox: &Sandbox) -> Checked {
    sandbox.write("race.c", RACE)?;
    sandbox.write("value.h", "#define VALUE 7\n")?;
    sandbox.write("race.cpp", RACE_CXX)?;
    Ok(())
}

fn cc(sandbox: &Sandbox, arguments: &[&str]) -> Checked<Ended> {
    sandbox.run(&sandbox.refrain(["cc"]).args(arguments))
}

fn plain(sandbox: &Sandbox, arguments: &[&str]) -> Checked<Ended> {
    sandbox.run(&sandbox.other(tool::plain_compiler(false), arguments))
}

/// The program records and replays; it would be refused if it was not instrumented.
fn check_program(sandbox: &Sandbox, name: &str) -> Checked {
    let run = format!("run-of-{name}");
    let recorded = record(sandbox, &run, &[], &sandbox.work().join(name), LIMIT)?;
    recorded.ended.clone().expect_status(0)?;
    recorded.check_replay(sandbox, 3, 0, LIMIT)
}

fn stages(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    cc(sandbox, &["-O2", "-c", "race.c"])?.expect_status(0)?;
    let object = fs::read(sandbox.work().join("race.o"))?;
    require(object.starts_with(b"\x7fELF"), || {
        "-c did not make an object file".to_owned()
    })?;
    cc(sandbox, &["-O2", "-S", "race.c"])?.expect_status(0)?;
    let assembly = fs::read_to_string(sandbox.work().join("race.s"))?;
    require(assembly.contains("main:") && assembly.contains("__refrain"), || {
        "-S did not make instrumented assembly".to_owned()
    })?;
    cc(sandbox, &["-c", "race.s", "-o", "assembled.o"])?.expect_status(0)?;
    cc(sandbox, &["assembled.o", "-pthread", "-o", "from_assembly"])?.expect_status(0)?;
    check_program(sandbox, "from_assembly")?;

    let (ours, theirs) = (cc(sandbox, &["-E", "race.c"])?, plain(sandbox, &["-E", "race.c"])?);
    require(ours.stdout == theirs.stdout, || {
        ours.told("-E is not what clang prints")
    })?;
    cc(sandbox, &["-E", "race.c", "-o", "race.i"])?.expect_status(0)?;
    cc(sandbox, &["-O1", "-c", "race.i", "-o", "preprocessed.o"])?.expect_status(0)?;
    cc(sandbox, &["-fsyntax-only", "race.c"])?.expect_status(0)?;
    cc(sandbox, &["race.o", "-pthread", "-o", "linked"])?.expect_status(0)?;
    check_program(sandbox, "linked")
}

fn dependency_files(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    let kinds: [(&[&str], &str); 4] = [
        (&["-MMD", "-MP", "-c", "race.c", "-o", "race.o"], "race.d"),
        (&["-MD", "-MF", "named.d", "-c", "race.c", "-o", "race.o"], "named.d"),
        (
            &[
                "-MMD", "-MT", "target", "-MF", "target.d", "-c", "race.c", "-o", "race.o",
            ],
            "target.d",
        ),
        (&["-Wp,-MMD,passed.d", "-c", "race.c", "-o", "race.o"], "passed.d"),
    ];
    for (arguments, file) in kinds {
        let path = sandbox.work().join(file);
        cc(sandbox, arguments)?.expect_status(0)?;
        let ours = fs::read_to_string(&path)?;
        fs::remove_file(&path)?;
        plain(sandbox, arguments)?.expect_status(0)?;
        let theirs = fs::read_to_string(&path)?;
        require(ours == theirs, || format!("{file}: got\n{ours}\ninstead of\n{theirs}"))?;
        require(ours.contains("value.h"), || {
            format!("{file} does not name value.h: {ours}")
        })?;
    }
    let (ours, theirs) = (cc(sandbox, &["-MM", "race.c"])?, plain(sandbox, &["-MM", "race.c"])?);
    require(ours.stdout == theirs.stdout && ours.status == 0, || {
        ours.told("-MM is not what clang prints")
    })
}

fn response_files(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    sandbox.write("flags.rsp", "-O2 -g\n-DTEXT=\"a \\\"b\\\" c\" 'race.c'\n@more.rsp\n")?;
    sandbox.write("more.rsp", "-pthread -o from_response")?;
    cc(sandbox, &["@flags.rsp"])?.expect_status(0)?;
    check_program(sandbox, "from_response")
}

fn several_sources(sandbox: &Sandbox) -> Checked {
    sandbox.write(
        "main.c",
        "int twice(int);\nint main(void) { return twice(21) != 42; }\n",
    )?;
    sandbox.write("twice.c", "int twice(int x) { return 2 * x; }\n")?;
    cc(sandbox, &["-O2", "-pthread", "main.c", "twice.c", "-o", "both"])?.expect_status(0)?;
    check_program(sandbox, "both")?;
    cc(sandbox, &["-c", "main.c", "twice.c"])?.expect_status(0)?;
    sandbox
        .run(&sandbox.other("ar", ["rcs", "libtwice.a", "twice.o"]))?
        .expect_status(0)?;
    cc(sandbox, &["main.o", "-L.", "-ltwice", "-o", "archived"])?.expect_status(0)?;
    check_program(sandbox, "archived")?;
    cc(sandbox, &["-r", "main.o", "twice.o", "-o", "partial.o"])?.expect_status(0)?;
    cc(sandbox, &["partial.o", "-o", "relinked"])?.expect_status(0)?;
    check_program(sandbox, "relinked")?;
    cc(sandbox, &["main.c", "twice.c"])?.expect_status(0)?;
    check_program(sandbox, "a.out")
}

fn optimisation_levels(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-Og"] {
        let (c, cxx) = (format!("c{level}"), format!("cxx{level}"));
        cc(sandbox, &[level, "-g", "-fPIC", "-pthread", "race.c", "-o", &c])?.expect_status(0)?;
        check_program(sandbox, &c)?;
        let line = sandbox.refrain(["c++", level, "-std=c++20", "-pthread", "race.cpp", "-o", &cxx]);
        sandbox.run(&line)?.expect_status(0)?;
        check_program(sandbox, &cxx)?;
    }
    Ok(())
}

fn languages(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    let strict = [
        "-std=c11",
        "-pedantic-errors",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-D_POSIX_C_SOURCE=200809L",
    ];
    sandbox
        .run(
            &sandbox
                .refrain(["cc"])
                .args(strict)
                .args(["-pthread", "race.c", "-o", "strict"]),
        )?
        .expect_status(0)?;
    check_program(sandbox, "strict")?;
    cc(sandbox, &["-x", "c", "-no-pie", "-pthread", "race.c", "-o", "fixed"])?.expect_status(0)?;
    check_program(sandbox, "fixed")?;
    // A C driver given C++ compiles C++, but does not link its library by itself.
    cc(
        sandbox,
        &["-std=c++20", "race.cpp", "-pthread", "-lstdc++", "-o", "cxx_by_cc"],
    )?
    .expect_status(0)?;
    check_program(sandbox, "cxx_by_cc")
}

fn questions(sandbox: &Sandbox) -> Checked {
    let same: [&[&str]; 6] = [
        &["-dumpmachine"],
        &["-dumpversion"],
        &["-print-file-name=libc.so"],
        &["-print-prog-name=ld"],
        &["-print-multi-os-directory"],
        &["--print-target-triple"],
    ];
    for arguments in same {
        let (ours, theirs) = (cc(sandbox, arguments)?, plain(sandbox, arguments)?);
        let is_same = ours.status == theirs.status && ours.stdout == theirs.stdout;
        require(is_same, || {
            ours.told(&format!("clang answers {}", theirs.stdout_text().trim()))
        })?;
    }
    for arguments in [&["--version"][..], &["-v"]] {
        let ended = cc(sandbox, arguments)?.expect_status(0)?;
        let text = ended.stdout_text() + &ended.stderr_text();
        require(text.contains("clang version"), || {
            ended.told("configure scripts look for the compiler's version")
        })?;
    }
    let defines = sandbox
        .run(&sandbox.refrain(["cc", "-dM", "-E", "-x", "c", "/dev/null"]))?
        .expect_status(0)?;
    require(defines.stdout_text().contains("__clang_major__"), || {
        defines.told("no predefined macros")
    })
}

fn errors(sandbox: &Sandbox) -> Checked {
    sandbox.write("wrong.c", "int main(void) {\n    return nothing;\n}\n")?;
    sandbox.write(
        "unlinked.c",
        "int nowhere(void);\nint main(void) { return nowhere(); }\n",
    )?;
    sandbox.write("careless.c", "int main(void) { int unused = 1; return 0; }\n")?;
    let wrong = cc(sandbox, &["-c", "wrong.c"])?;
    require(wrong.status == 1 && wrong.stderr_text().contains("wrong.c:2:"), || {
        wrong.told("expected an error")
    })?;
    require(!sandbox.work().join("wrong.o").exists(), || {
        "a failed compilation left an object".to_owned()
    })?;
    let unlinked = cc(sandbox, &["unlinked.c", "-o", "unlinked"])?;
    require(
        unlinked.status != 0 && unlinked.stderr_text().contains("nowhere"),
        || unlinked.told("expected an error"),
    )?;
    let careless = cc(sandbox, &["-Wall", "-Werror", "-c", "careless.c"])?;
    require(
        careless.status == 1 && careless.stderr_text().contains("unused"),
        || careless.told("expected an error"),
    )?;
    for arguments in [&["-c", "missing.c"][..], &[], &["--no-such-flag", "-c", "careless.c"]] {
        let ended = cc(sandbox, arguments)?;
        require(ended.status != 0 && !ended.stderr.is_empty(), || {
            ended.told("expected an error")
        })?;
    }
    Ok(())
}

fn odd_names_and_inputs(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    sandbox.write("a name with spaces.c", RACE)?;
    cc(sandbox, &["-I.", "-pthread", "a name with spaces.c", "-o", "a program"])?.expect_status(0)?;
    check_program(sandbox, "a program")?;
    sandbox.write("sub/dir/deep.c", "int deep(void) { return 1; }\n")?;
    cc(sandbox, &["-c", "sub/dir/deep.c"])?.expect_status(0)?;
    require(sandbox.work().join("deep.o").exists(), || {
        "the object belongs into the current directory".to_owned()
    })?;
    let from_stdin = format!(
        "{} -x c -I. -pthread -o from_stdin - < race.c",
        sandbox.compiler_variable("cc")
    );
    sandbox
        .run(&sandbox.other("sh", ["-c", &from_stdin]))?
        .expect_status(0)?;
    check_program(sandbox, "from_stdin")?;
    sandbox.write("empty.c", "")?;
    cc(sandbox, &["-c", "empty.c", "-o", "/dev/null"])?.expect_status(0)?;
    sandbox.write(
        "answer.S",
        ".globl answer\nanswer:\n  mov $42, %eax\n  ret\n.section .note.GNU-stack,\"\",@progbits\n",
    )?;
    sandbox.write(
        "ask.c",
        "int answer(void);\nint main(void) { return answer() != 42; }\n",
    )?;
    cc(sandbox, &["ask.c", "answer.S", "-o", "asks"])?.expect_status(0)?;
    check_program(sandbox, "asks")
}

fn plain_objects(sandbox: &Sandbox) -> Checked {
    sandbox.write(
        "main.c",
        "int helper(int);\nint main(void) { return helper(1) != 2; }\n",
    )?;
    sandbox.write("helper.c", "int helper(int x) { return x + 1; }\n")?;
    plain(sandbox, &["-O2", "-c", "helper.c"])?.expect_status(0)?;
    cc(sandbox, &["-O2", "main.c", "helper.o", "-o", "mixed"])?.expect_status(0)?;
    check_program(sandbox, "mixed")
}

fn source_lines(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    for (flags, program) in [(&["-g"][..], "debug"), (&[], "no_debug")] {
        let line = sandbox
            .refrain(["cc", "-O1", "-pthread", "race.c", "-o", program])
            .args(flags);
        sandbox.run(&line)?.expect_status(0)?;
        check_program(sandbox, program)?;
        let run = Path::new(".").join(format!("run-of-{program}"));
        let dump = sandbox.run(&sandbox.refrain(["dump"]).arg(run))?.expect_status(0)?;
        // The line of the racy statement, with or without -g: sites need no debug information in the program.
        require(dump.stdout_text().contains("race.c:8"), || {
            dump.told("expected records of race.c:8")
        })?;
    }
    Ok(())
}

/// Inline assembly of every kind compiles and does what it does; what is not observed of it is listed, by its line, and nothing else.
fn inline_assembly(sandbox: &Sandbox) -> Checked {
    sandbox.write(
        "assembly.c",
        r#"
#include <stdint.h>
#include <stdio.h>
static volatile int lock = 1, count;
static volatile uint64_t section;
static char from[8] = "copied", to[8];
static void spin(volatile int *place) {
    asm volatile("1: lock; decl %0\n\tjns 3f\n2: rep; nop\n\tcmpl $0, %0\n\tjle 2b\n\tjmp 1b\n3:" : "+m"(*place)::"memory", "cc"); // listed
}
static int decrement(volatile int *place) {
    asm goto("lock; decl %0\n\tjz %l[zero]" ::"m"(*place) : "memory", "cc" : zero); // listed
    return 0;
zero:
    return 1;
}
static int restartable(volatile int *place, int by) {
    asm goto( // listed
        ".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n3:\n\t.long 0, 0\n\t.quad 1f, (2f - 1f), 4f\n\t.popsection\n\t"
        "leaq 3b(%%rip), %%rax\n\tmovq %%rax, %[section]\n1:\n\taddl %[by], %[place]\n2:\n\t"
        ".pushsection __rseq_failure, \"ax\"\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n4:\n\tjmp %l[abort]\n\t.popsection\n"
        ::[section] "m"(section), [place] "m"(*place), [by] "r"(by) : "memory", "cc", "rax" : abort);
    return 0;
abort:
    return -1;
}
static void copy(void *target, const void *source, unsigned long bytes) {
    asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes)::"memory"); // listed
}
int main(void) {
    int one = 1, local = 0;
    asm volatile("lock; xaddl %0, %1" : "+r"(one), "+m"(count)::"memory");
    asm volatile("lock; addl $0, -4(%%rsp)" ::: "memory", "cc");
    asm volatile("movl $5, %0" : "=m"(local));
    asm volatile("mfence; pause" ::: "memory");
    spin(&lock);
    lock = 1;
    copy(to, from, sizeof from);
    int aborted = restartable(&count, 5), zero = decrement(&lock);
    printf("%d %d %d %d %s\n", local, count, aborted, zero, to);
}
"#,
    )?;
    let source = fs::read_to_string(sandbox.work().join("assembly.c"))?;
    let listed: Vec<usize> = (1..)
        .zip(source.lines())
        .filter(|(_, line)| line.contains("// listed"))
        .map(|(number, _)| number)
        .collect();
    for (level, program) in [("-O0", "plain"), ("-O2", "optimised")] {
        cc(sandbox, &[level, "-pthread", "assembly.c", "-o", program])?.expect_status(0)?;
        let run = format!("run-of-{program}");
        let line = sandbox
            .refrain(["record", "-o", &run, "--"])
            .arg(format!("./{program}"));
        let recorded = sandbox.run(&line)?.expect_status(0)?;
        require(recorded.stdout_text().contains("5 6 0 1 copied"), || {
            recorded.told("expected what the statements do")
        })?;
        let info = sandbox.run(&sandbox.refrain(["info", &run]))?.expect_status(0)?;
        let text = info.stdout_text();
        let says = text.lines().find(|line| line.contains("inline assembly"));
        let expected = format!(
            "{} inline assembly statements access memory in ways that are not observed",
            listed.len()
        );
        require(says.is_some_and(|line| line.contains(&expected)), || {
            info.told(&expected)
        })?;
        for number in &listed {
            let place = format!("assembly.c:{number}");
            require(says.is_some_and(|line| line.contains(&place)), || info.told(&place))?;
        }
    }
    Ok(())
}

/// Two builds of the same sources list the same elements, and the files that have none are refused.
fn shared_program_elements(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    sandbox.write(
        "store.c",
        "#include <pthread.h>\nstruct item { int count; pthread_mutex_t lock; };\nint total;\n\
         void put(struct item *i) {\n    pthread_mutex_lock(&i->lock);\n    total += i->count++;\n    \
         pthread_mutex_unlock(&i->lock);\n}\n",
    )?;
    let build = |folder: &str| -> Checked<Vec<String>> {
        fs::create_dir_all(sandbox.work().join(folder))?;
        let (program, library) = (format!("{folder}/race"), format!("{folder}/libstore.so"));
        cc(sandbox, &["-O2", "-pthread", "race.c", "-o", &program])?.expect_status(0)?;
        cc(sandbox, &["-O1", "-fPIC", "-shared", "store.c", "-o", &library])?.expect_status(0)?;
        let line = sandbox.refrain(["spes", &program, &library]);
        let text = sandbox.run(&line)?.expect_status(0)?.stdout_text();
        let json = sandbox.run(&line.arg("--json"))?.expect_status(0)?;
        let json: serde_json::Value =
            serde_json::from_slice(&json.stdout).map_err(|e| Problem::Failed(json.told(&e.to_string())))?;
        Ok(vec![text, json.to_string()])
    };
    let (one, two) = (build("one")?, build("two")?);
    require(one == two, || format!("two builds, two lists:\n{}\n{}", one[0], two[0]))?;
    for (kind, name) in [
        ("global", "shared (race.c)"),
        ("global", "total"),
        ("field", "item.count"),
        ("lock", "item.lock"),
    ] {
        let listed = one[0]
            .lines()
            .any(|line| line[8..].trim_start().starts_with(kind) && line.contains(name));
        require(listed, || format!("no {kind} {name} in:\n{}", one[0]))?;
    }
    plain(sandbox, &["-c", "store.c", "-o", "plain.o"])?.expect_status(0)?;
    for (file, status, why) in [
        ("plain.o", 2, "no site table"),
        ("race.c", 2, "not an ELF file"),
        ("nowhere", 2, "cannot read nowhere"),
        (".", 2, "cannot read"),
    ] {
        let ended = sandbox.run(&sandbox.refrain(["spes", file]))?.expect_status(status)?;
        ended.expect_refusal(&[why])?;
    }
    Ok(())
}

/// Which accesses of a line are observed, and why: as sentences and as JSON, of C and of C++, and the program that is compiled is the same.
fn why(sandbox: &Sandbox) -> Checked {
    write_sources(sandbox)?;
    sandbox.write(
        "bank.c",
        r#"#include <pthread.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static long total;
struct account { long id, balance; };
void deposit(struct account *a, long n) {
    long fees[4] = {n, n, n, n};
    a->balance += n - fees[n & 3];
    pthread_mutex_lock(&m);
    total += n;
    pthread_mutex_unlock(&m);
}
"#,
    )?;
    let expect = |ended: Ended, status: i32, parts: &[&str]| -> Checked {
        let ended = ended.expect_status(status)?;
        let text = ended.stdout_text() + &ended.stderr_text();
        parts
            .iter()
            .try_for_each(|part| require(text.contains(part), || ended.told(&format!("expected \"{part}\""))))
    };
    let asked = [
        "--why", "bank.c:7", "--why", "bank.c:9", "-O2", "-c", "bank.c", "-o", "asked.o",
    ];
    let said = [
        "refrain: bank.c:7:16: 8-byte store of account.balance in deposit: observed: may be shared: points to memory from argument `a` of `deposit`",
        "; covered by the check at bank.c:7:",
        "not observed (stack): does not escape: stack object `fees` of `deposit`",
        "refrain: bank.c:9:11: 8-byte load of total (bank.c) in deposit: not observed (locked): lock `m (bank.c)` is held at every access of `total`",
    ];
    expect(cc(sandbox, &asked)?, 0, &said)?;
    cc(sandbox, &["-O2", "-c", "bank.c", "-o", "unasked.o"])?.expect_status(0)?;
    let objects = ["asked.o", "unasked.o"].map(|object| fs::read(sandbox.work().join(object)));
    let [asked, unasked] = objects;
    require(asked? == unasked?, || "--why changes what is compiled".to_owned())?;

    let cxx = sandbox.refrain([
        "c++",
        "--why=race.cpp:13",
        "-O2",
        "-std=c++20",
        "-pthread",
        "race.cpp",
        "-o",
        "race",
    ]);
    let said = [
        "race.cpp:13:",
        "volatile 4-byte load of",
        "inlined into",
        "observed: may be shared: `shared`",
    ];
    expect(sandbox.run(&cxx)?, 0, &said)?;
    check_program(sandbox, "race")?;

    let json = cc(sandbox, &["--why-json", "bank.c:9", "-O2", "-c", "bank.c"])?.expect_status(0)?;
    let value: serde_json::Value =
        serde_json::from_slice(&json.stdout).map_err(|e| Problem::Failed(json.told(&e.to_string())))?;
    let access = &value["places"][0]["accesses"][0];
    require(access["observed"] == false && access["rule"] == "locked", || {
        json.told("expected a lock")
    })?;

    expect(
        cc(sandbox, &["--why", "bank.c:1", "-c", "bank.c"])?,
        1,
        &["bank.c:1: no access"],
    )?;
    expect(
        cc(sandbox, &["--why", "race.c:8", "-c", "bank.c"])?,
        2,
        &["nothing that was compiled here has code of race.c"],
    )?;
    expect(
        cc(sandbox, &["--why", "bank.c:77", "-c", "bank.c"])?,
        2,
        &["there is no line 77 in bank.c"],
    )?;
    expect(
        cc(sandbox, &["--why", "bank.c:7", "-E", "bank.c"])?,
        2,
        &["this command compiles none"],
    )
}
