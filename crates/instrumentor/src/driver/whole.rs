//! `-flto`: the program is instrumented once, as a whole, while it is linked (`pass/whole.h`, docs/observed.md).
//!
//! lld merges the modules, makes internal what nobody outside can name, and has the pass run in the pipeline that it is given here.
use super::Toolchain;
use super::arguments::Goal;
use super::arguments::Lto;
use super::arguments::Request;
use super::why;
use std::ffi::OsString;

/// Before `default`, what link-time optimisation has to lower in any case.
const LOWERED: &str = "wholeprogramdevirt,lowertypetests";

/// What linking a whole program adds; nothing if it is not one.
pub fn link_options(tools: &Toolchain, request: &Request) -> Vec<OsString> {
    if request.lto != Lto::Full {
        return Vec::new();
    }
    let mut plugin = OsString::from("--load-pass-plugin=");
    plugin.push(&tools.pass);
    let level = request.level.unwrap_or('2');
    let passes = format!("--lto-newpm-passes={LOWERED},default<O{level}>");
    let mut options: Vec<OsString> = Vec::new();
    if request.linker.is_none() {
        options.push("-fuse-ld=lld".into());
    }
    // Not with -Wl, which would cut at commas.
    options.extend(["-Xlinker".into(), plugin, "-Xlinker".into(), passes.into()]);
    options
}

pub fn refuse_unsupported(request: &Request) -> Result<(), String> {
    if request.lto != Lto::Full || matches!(request.goal, Goal::Information | Goal::Preprocess) {
        return Ok(());
    }
    if request.is_fat_lto {
        return Err(
            "-ffat-lto-objects is not supported: with -flto a program is instrumented while it is linked, and the machine code of \
             such objects would not be. Leave it out"
                .to_owned(),
        );
    }
    match &request.linker {
        Some(linker) if request.goal != Goal::Compile && !linker.contains("lld") => Err(format!(
            "-flto needs lld, which runs the compiler pass over the whole program, and {linker} is asked for; leave that out, \
             or compile and link without -flto or with -flto=thin"
        )),
        _ => Ok(()),
    }
}

/// Where a module is held, nothing is decided yet.
pub fn refuse_early_questions(request: &Request, questions: &why::Questions) -> Result<(), String> {
    match (request.lto, request.goal, questions.places.first()) {
        (Lto::Full, Goal::Compile, Some(place)) => Err(format!(
            "with -flto it is decided while the program is linked which accesses are observed: ask {} {place} of the command that links it",
            why::TEXT
        )),
        _ => Ok(()),
    }
}
