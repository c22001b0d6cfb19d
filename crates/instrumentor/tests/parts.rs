//! Versions for partial recordings (`refrain cc --coop`): whatever is chosen, programs behave as ever; what is chosen comes to the runtime, all of it, and
//! nothing else does.
mod support;

use instrumentor::driver::Language;
use std::path::Path;
use support::directory;
use support::native;
use support::refrain;
use support::run;
use support::run_ok;
use support::source;

/// All elements, each by its bit.
const ALL: &str = "0x7fffffffffffffff";
/// Every access is a call of the runtime, in whole recordings as well.
const SLOW: [(&str, &str); 2] = [("FAKE_GATE", "0"), ("FAKE_LOOPS", "0")];

/// `has_undivided`: a function with a computed goto, say, is observed as a whole or not at all; which of its accesses are chosen, the runtime knows.
fn check(file: &str, levels: &[&str], has_undivided: bool) {
    for level in levels {
        let out = directory("parts").join(format!("{file}{}", level.replace(' ', "")));
        let (plain, observed) = (out.with_added_extension("native"), out.with_added_extension("observed"));
        let path = source("programs").join(file);
        let (language, standard) = match file.ends_with(".cpp") {
            true => (Language::Cxx, "-std=c++20"),
            false => (Language::C, "-std=gnu2x"),
        };
        let mut options: Vec<&str> = level.split(' ').collect();
        options.extend(["-w", "-pthread", standard, path.to_str().unwrap(), "-lm", "-o"]);
        run_ok(native(language).args(&options).arg(&plain));
        options.push(observed.to_str().unwrap());
        run_ok(refrain(language, &options).env("REFRAIN_BUILD_COOP", "1"));
        compare(&plain, &observed, has_undivided);
    }
}

fn compare(plain: &Path, observed: &Path, has_undivided: bool) {
    let expected = run(plain, &[]).visible;
    let calls = |mask: &str| {
        let result = run(observed, &[&SLOW[..], &[("FAKE_PARTS", mask)]].concat());
        assert_eq!(result.visible, expected, "{} {mask}", observed.display());
        assert!(result.counters["parts"] > 0 && result.counters["unknown_sites"] == 0);
        result.counters["plain_calls"] + result.counters["range_calls"]
    };
    let (whole, all) = (calls("-1"), calls(ALL));
    assert_eq!((calls("0"), all), (0, whole), "{}", observed.display());
    // Each call is of one element; functions have few, so these are all there are.
    let single = (0..12).map(|bit| 1u64 << bit);
    let masks = single.chain([(1 << 63) - (1 << 12)]);
    let each: Vec<u64> = masks.map(|mask| calls(&mask.to_string())).collect();
    assert!(each.iter().all(|calls| *calls <= all));
    assert!(
        has_undivided || each.iter().sum::<u64>() == all,
        "{}",
        observed.display()
    );
}

/// Not of programs whose threads race, such as `lockset.c`: what they print, and how often they access what, is another thing now and then.
#[test]
fn what_is_chosen_is_observed_and_nothing_else() {
    check("types.c", &["-O0", "-O2 -g"], false);
    check("control.c", &["-O1", "-O2 -g"], true);
    check("loops.c", &["-O2 -g", "-O3", "-Os"], false);
    check("strings.c", &["-O2 -g"], false);
    check("objects.cpp", &["-O0", "-O2 -g"], false);
}
