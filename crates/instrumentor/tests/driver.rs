//! The driver as build systems use it: one step or many, archives, shared libraries, make, configure-like probes.
mod support;

use instrumentor::driver::Language;
use instrumentor::sites::SiteKind;
use instrumentor::sites::SiteTable;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use support::directory;
use support::native;
use support::refrain;
use support::run;
use support::run_ok;
use support::toolchain;

const MAIN: &str = "#include <stdio.h>\nextern int shared;\nint add(int);\nint main(void) {\n    for (int i = 0; i < 10; i++)\n        add(i);\n    shared += 1;\n    printf(\"%d\\n\", shared);\n    return 0;\n}\n";
const PART: &str = "int shared;\nint add(int n) {\n    shared += n;\n    return shared;\n}\n";

/// A fresh directory with main.c and part.c.
fn project(name: &str) -> PathBuf {
    let path = directory("driver").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("main.c"), MAIN).unwrap();
    fs::write(path.join("part.c"), PART).unwrap();
    path
}

fn cc(at: &Path, line: &str) {
    let arguments: Vec<&str> = line.split(' ').collect();
    run_ok(refrain(Language::C, &arguments).current_dir(at));
}

/// Runs and prints 46, and ten calls of add with three events each plus the three in main are observed.
fn expect_observed(program: &Path) {
    let result = run(program, &[]);
    assert_eq!(result.visible, (Some(0), "46\n".to_string()));
    assert_eq!(result.events(), 33, "{}: {:?}", program.display(), result.counters);
    assert_eq!(run(program, &[("FAKE_GATE", "0")]).events(), 33);
}

#[test]
fn sources_at_once_separately_and_through_assembly() {
    let at = project("steps");
    cc(&at, "-O0 main.c part.c -o once");
    expect_observed(&at.join("once"));
    cc(&at, "-O0 -c main.c part.c");
    cc(&at, "main.o part.o -o separately");
    expect_observed(&at.join("separately"));
    cc(&at, "-O0 -S main.c part.c");
    cc(&at, "main.s part.s -o assembly");
    expect_observed(&at.join("assembly"));
    cc(&at, "-O0 -emit-llvm -c part.c -o part.bc");
    cc(&at, "-O0 main.c part.bc -o bitcode"); // the pass meets part.bc twice and must notice
    expect_observed(&at.join("bitcode"));
    cc(&at, "-O0 -save-temps main.c part.c -o temps");
    expect_observed(&at.join("temps"));
    cc(&at, "-MMD -c main.c");
    assert!(at.join("main.d").exists());
}

#[test]
fn response_files_partial_links_and_linkers() {
    let at = project("links");
    fs::write(at.join("args"), "-O0 main.c\npart.c -o 'from file'").unwrap();
    cc(&at, "@args");
    expect_observed(&at.join("from file"));
    cc(&at, "-O0 -c main.c part.c");
    cc(&at, "-r main.o part.o -o both.o");
    cc(&at, "both.o -o partial");
    expect_observed(&at.join("partial"));
    cc(
        &at,
        "-fuse-ld=lld -Wl,--gc-sections -ffunction-sections -O0 main.c part.c -o lld",
    );
    expect_observed(&at.join("lld"));
    cc(
        &at,
        "-Wl,--gc-sections -Wl,--as-needed -no-pie -O0 main.c part.c -o collected",
    );
    expect_observed(&at.join("collected"));
}

#[test]
fn archives_and_shared_libraries() {
    let at = project("libraries");
    cc(&at, "-O0 -c part.c -o part.o");
    run_ok(Command::new("ar").args(["rcs", "libpart.a", "part.o"]).current_dir(&at));
    cc(&at, "-O0 main.c -L. -lpart -o archive");
    expect_observed(&at.join("archive"));
    cc(&at, "-O0 -fPIC -shared part.c -o libshared.so");
    cc(&at, "-O0 main.c -L. -lshared -Wl,-rpath,$ORIGIN -o dynamic");
    expect_observed(&at.join("dynamic"));
    // Two objects, two tables; the runtime comes before everything else.
    assert_eq!(run(&at.join("dynamic"), &[]).counters["tables"], 2);
    let needed = run_ok(Command::new("readelf").args(["-d", "dynamic"]).current_dir(&at));
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    let first = needed.lines().find(|line| line.contains("NEEDED")).unwrap();
    assert!(first.contains(runtime_abi::RUNTIME_LIBRARY), "{needed}");
}

/// Each module by itself; what -flto does as a whole: tests/whole.rs.
#[test]
fn link_time_optimisation() {
    let at = project("thin");
    cc(&at, "-O2 -flto=thin -fuse-ld=lld -c main.c part.c");
    cc(&at, "-O2 -flto=thin -fuse-ld=lld main.o part.o -o lto");
    let result = run(&at.join("lto"), &[]);
    assert_eq!(result.visible, (Some(0), "46\n".to_string()));
    assert!(result.events() >= 20, "{:?}", result.counters);
    assert_eq!(run(&at.join("lto"), &[("FAKE_GATE", "0")]).events(), result.events());
}

#[test]
fn openmp() {
    let at = project("openmp");
    fs::write(
        at.join("omp.c"),
        "#include <omp.h>\n#include <stdio.h>\nint hits[64], total;\nint main(void) {\n#pragma omp parallel for num_threads(3) \
         reduction(+ : total)\n    for (int i = 0; i < 64; i++) { hits[i]++; total += i; }\n    printf(\"%d\\n\", total);\n}\n",
    )
    .unwrap();
    cc(&at, "-fopenmp -O1 omp.c -o omp");
    let result = run(&at.join("omp"), &[]);
    assert_eq!(result.visible, (Some(0), "2016\n".to_string()));
    assert!(result.events() >= 128, "{:?}", result.counters);
}

#[test]
fn bitcode_of_other_compilers_through_opt() {
    let at = project("opt");
    run_ok(
        native(Language::C)
            .args(["-O1", "-g", "-emit-llvm", "-c", "main.c", "part.c"])
            .current_dir(&at),
    );
    for name in ["main.bc", "part.bc"] {
        let plugin = format!("-load-pass-plugin={}", toolchain().pass.display());
        let mut opt = Command::new("opt-22");
        run_ok(
            opt.args([&plugin, "-passes=refrain", name, "-o", name])
                .env("REFRAIN_VERIFY_IR", "1")
                .current_dir(&at),
        );
    }
    cc(&at, "main.bc part.bc -o program");
    let result = run(&at.join("program"), &[]);
    assert_eq!(result.visible, (Some(0), "46\n".to_string()));
    assert!(result.events() >= 20, "{:?}", result.counters);
}

#[test]
fn sites_speak_in_source_lines() {
    let at = project("sites");
    cc(&at, "-O0 main.c part.c -o program");
    let table = SiteTable::read(&at.join("program")).unwrap();
    let found: Vec<(String, u32, SiteKind, String)> = table
        .iter()
        .map(|(_, site)| {
            let file = Path::new(&site.file);
            assert!(file.is_absolute(), "{}", site.file);
            (
                file.file_name().unwrap().to_string_lossy().into_owned(),
                site.line,
                site.kind,
                site.function,
            )
        })
        .collect();
    let site = |file: &str, line: u32, kind: SiteKind, function: &str| {
        let wanted = (file.to_string(), line, kind, function.to_string());
        assert!(found.contains(&wanted), "{wanted:?} is not among {found:#?}");
    };
    site("part.c", 3, SiteKind::Load, "add");
    site("part.c", 3, SiteKind::Store, "add");
    site("part.c", 4, SiteKind::Load, "add");
    site("main.c", 7, SiteKind::Store, "main");
    site("main.c", 8, SiteKind::SyncCall, "main");
    // The same sources give the same table.
    cc(&at, "-O0 main.c part.c -o again");
    let again = SiteTable::read(&at.join("again")).unwrap();
    assert!(table.iter().eq(again.iter()));
}

fn compiler(language: &str) -> String {
    let driver = env!("CARGO_BIN_EXE_instrumentor-test-driver");
    let tools = toolchain();
    format!(
        "{driver} {} {} {language}",
        tools.pass.display(),
        tools.runtime_directory.display()
    )
}

#[test]
fn make_with_implicit_rules() {
    let at = project("make");
    fs::write(
        at.join("Makefile"),
        "CFLAGS = -O0\nmain: main.o libpart.a\nlibpart.a: libpart.a(part.o)\n",
    )
    .unwrap();
    run_ok(
        Command::new("make")
            .arg("-j2")
            .arg(format!("CC={}", compiler("cc")))
            .current_dir(&at),
    );
    expect_observed(&at.join("main"));
}

/// What configure scripts ask: does it compile, link, preprocess; does it know this header, function, option?
#[test]
fn probes_get_the_answers_of_a_compiler() {
    let at = project("probes");
    fs::write(at.join("bad.c"), "int main(void) { return undeclared; }\n").unwrap();
    fs::write(
        at.join("nofunction.c"),
        "int surely_missing(void);\nint main(void) { return surely_missing(); }\n",
    )
    .unwrap();
    fs::write(at.join("empty.c"), "").unwrap();
    fs::write(
        at.join("t.cpp"),
        "#include <string>\nint main() { return std::string(\"x\").size() - 1; }\n",
    )
    .unwrap();
    let shell = |language: &str, line: &str| {
        let command = format!("{} {line}", compiler(language));
        Command::new("sh")
            .arg("-c")
            .arg(&command)
            .current_dir(&at)
            .output()
            .unwrap()
    };
    for (line, code) in [
        ("--version", 0),
        ("-v", 0),
        ("-qversion", 1),
        ("-V", 1),
        ("-print-prog-name=ld", 0),
        ("-E main.c", 0),
        ("-M main.c", 0),
        ("-fsyntax-only main.c", 0),
        ("-c empty.c -o empty.o", 0),
        ("-c bad.c", 1),
        ("nofunction.c", 1),
        ("-c main.c -o sub/none.o", 1),
        ("-Werror -c part.c", 0),
        ("-Werror -Wunused-command-line-argument -c part.o", 1),
        ("-fno-such-option -c part.c", 1),
        ("-static main.c part.c", 2),
        ("-dM -E - </dev/null", 0),
        ("-x c -c - -o stdin.o <part.c", 0),
        ("-Wl,--version", 0),
    ] {
        let output = shell("cc", line);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let noise = String::from_utf8_lossy(&output.stderr).contains("refrain_pass");
        assert!(
            !noise || code != 0,
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(shell("c++", "t.cpp -o t && ./t").status.code(), Some(0));
    assert_eq!(shell("c++", "-x c++-header t.cpp -o t.pch").status.code(), Some(0));
    let version = shell("cc", "--version");
    assert!(String::from_utf8_lossy(&version.stdout).contains("clang version 22"));
}
