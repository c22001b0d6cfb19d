use super::*;
use std::fs;

/// A toolchain whose files exist, in a directory of its own.
fn tools(name: &str) -> Toolchain {
    let directory = env::temp_dir().join(format!("refrain-driver-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let pass = directory.join("pass.so");
    fs::write(&pass, "").unwrap();
    fs::write(directory.join(runtime_abi::RUNTIME_LIBRARY), "").unwrap();
    Toolchain {
        clang: "clang-22".into(),
        clangxx: "clang++-22".into(),
        pass,
        runtime_directory: directory,
    }
}

fn planned(language: Language, line: &str) -> Result<String, String> {
    let tools = tools("plan");
    let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let planned = plan(&tools, language, &arguments)?;
    let text: Vec<String> = planned.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok(text
        .join(" ")
        .replace(&*tools.runtime_directory.to_string_lossy(), "DIR"))
}

const PASS: &str = "--start-no-unused-arguments -fpass-plugin=DIR/pass.so -g -Xclang -dwarf-debug-flags \
                    -Xclang refrain-lines-only -idirafter DIR/include --end-no-unused-arguments";
const PASS_ONLY: &str =
    "--start-no-unused-arguments -fpass-plugin=DIR/pass.so -idirafter DIR/include --end-no-unused-arguments";
const LINK: &str =
    "-Wl,--push-state,--no-as-needed -LDIR -lrefrain_runtime -Wl,--pop-state -Xlinker -rpath -Xlinker DIR";

#[test]
fn the_additions_fit_the_goal() {
    let c = |line: &str| planned(Language::C, line).unwrap();
    for same in [
        "--version",
        "-v",
        "-print-search-dirs",
        "-dumpmachine -o x",
        "-Wl,--version",
    ] {
        assert_eq!(c(same), same);
    }
    for preprocessed in ["-E a.c", "-M -MF d a.c"] {
        assert_eq!(c(preprocessed), format!("{preprocessed} -idirafter DIR/include"));
    }
    assert_eq!(c("-c a.c -o a.o"), format!("-c a.c -o a.o {PASS}"));
    assert_eq!(c("-g -S a.c"), format!("-g -S a.c {PASS_ONLY}"));
    assert_eq!(c("-g -g0 -c a.c"), format!("-g -g0 -c a.c {PASS}"));
    assert_eq!(c("-g1 -c a.c"), format!("-g1 -c a.c {PASS}"));
    assert_eq!(c("-O2 a.c b.o -lm"), format!("{LINK} -O2 a.c b.o -lm {PASS}"));
    assert_eq!(c("-r a.o b.o -o c.o"), format!("-r a.o b.o -o c.o {PASS}"));
    assert_eq!(c("all.h -o all.pch"), format!("all.h -o all.pch {PASS}"));
    assert_eq!(c("-c -- -odd.c"), format!("-c {PASS} -- -odd.c"));
    assert!(c("-O2 -D_FORTIFY_SOURCE=2 -c a.c").contains("-U_FORTIFY_SOURCE"));
}

#[test]
fn cxx_sources_instantiate_their_templates() {
    let flag = "-D_GLIBCXX_EXTERN_TEMPLATE=0";
    assert!(planned(Language::Cxx, "-E a.cc").unwrap().contains(flag));
    assert!(planned(Language::C, "-c a.cpp").unwrap().contains(flag));
    assert!(planned(Language::C, "-c -x c++ -").unwrap().contains(flag));
    assert!(!planned(Language::C, "-c a.c").unwrap().contains(flag));
}

#[test]
fn what_cannot_work_is_refused_with_a_reason() {
    let refusal = |line: &str| planned(Language::C, line).unwrap_err();
    assert!(refusal("-static a.c").starts_with("-static is not supported"));
    assert!(refusal("-fsanitize=undefined,thread -c a.c").starts_with("-fsanitize=thread cannot be combined"));
    assert!(refusal("-m32 -c a.c").starts_with("-m32 is not supported"));
    assert!(refusal("--target=aarch64-linux-gnu -c a.c").contains("aarch64"));
    // Compiling for a static link is nobody's mistake yet.
    assert!(planned(Language::C, "-static -c a.c").is_ok());
    assert!(planned(Language::C, "-fsanitize=undefined -c a.c").is_ok());
}

const WHOLE: &str = "-Xlinker --load-pass-plugin=DIR/pass.so -Xlinker \
                     --lto-newpm-passes=wholeprogramdevirt,lowertypetests,default<O";

#[test]
fn whole_programs_are_instrumented_while_they_are_linked() {
    let c = |line: &str| planned(Language::C, line).unwrap();
    assert_eq!(c("-O2 -flto -c a.c"), format!("-O2 -flto -c a.c {PASS}"));
    assert_eq!(
        c("-flto a.o"),
        format!("{LINK} -flto a.o {PASS} -fuse-ld=lld {WHOLE}2>")
    );
    assert_eq!(
        c("-flto=full -fuse-ld=lld -O3 a.o"),
        format!("{LINK} -flto=full -fuse-ld=lld -O3 a.o {PASS} {WHOLE}3>")
    );
    assert!(c("-r -flto -Oz -O0 a.o").ends_with(&format!("-fuse-ld=lld {WHOLE}0>")));
    assert!(c("-shared -flto -Oz a.o").ends_with(&format!("-fuse-ld=lld {WHOLE}2>")));
    for each_by_itself in [
        "-flto=thin a.o",
        "-flto -fno-lto a.o",
        "-flto -fno-lto -fuse-ld=bfd a.o",
    ] {
        assert_eq!(c(each_by_itself), format!("{LINK} {each_by_itself} {PASS}"));
    }
    let refusal = |line: &str| planned(Language::C, line).unwrap_err();
    assert!(refusal("-flto -fuse-ld=bfd a.o").starts_with("-flto needs lld"));
    assert!(refusal("-flto -ffat-lto-objects -c a.c").starts_with("-ffat-lto-objects is not supported"));
    // It is the link that needs it.
    assert!(planned(Language::C, "-flto -fuse-ld=bfd -c a.c").is_ok());
}

#[test]
fn response_files_are_looked_into_and_passed_on() {
    let file = env::temp_dir().join(format!("refrain-driver-response-{}", std::process::id()));
    fs::write(&file, "-c \"a b.cpp\" -g").unwrap();
    let line = format!("@{}", file.display());
    let plan = planned(Language::C, &line).unwrap();
    assert!(
        plan.starts_with("-D_GLIBCXX_EXTERN_TEMPLATE=0 @")
            && plan.ends_with(
                "-fpass-plugin=DIR/pass.so -fstandalone-debug -idirafter DIR/include --end-no-unused-arguments"
            ),
        "{plan}"
    );
    fs::write(&file, &line).unwrap();
    assert!(planned(Language::C, &line).unwrap_err().contains("contains itself"));
    fs::remove_file(&file).unwrap();
}

#[test]
fn a_missing_part_is_named() {
    let mut incomplete = tools("missing");
    incomplete.pass = incomplete.runtime_directory.join("nowhere.so");
    let why = plan(&incomplete, Language::C, &["-c".into(), "a.c".into()]).unwrap_err();
    assert!(why.starts_with("the compiler pass is missing"), "{why}");
    incomplete.clang = "no-such-clang".into();
    let why = run(&incomplete, Language::C, &["--version".into()]).unwrap_err();
    assert!(
        why.starts_with("cannot start no-such-clang") && why.contains("apt-get install clang-22"),
        "{why}"
    );
}

#[test]
fn our_own_option_is_not_for_clang() {
    let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
    let own = Own::take(&words("-O2 --det a.c --functions f -- --det")).unwrap();
    assert_eq!((own.others, own.is_counted), (words("-O2 a.c -- --det"), true));
    assert_eq!(own.functions, Some("f".into()));
    let own = Own::take(&words("-O2 a.c --functions=f=g")).unwrap();
    assert_eq!((own.others, own.is_counted), (words("-O2 a.c"), false));
    assert_eq!(own.functions, Some("f=g".into()));
    assert!(Own::take(&words("-O2 a.c --functions")).is_err());
}
