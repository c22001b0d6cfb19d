//! Each setting of a run comes back from the control file and from `run.json`, whichever settings there are; and runs of earlier versions have theirs.
use run_model::Method;
use run_model::Scope;
use run_store::Beginning;
use run_store::ControlFile;
use run_store::ControlSetup;
use run_store::RunMeta;
use run_store::RunSettings;
use runtime_abi::settings::COUNT;
use runtime_abi::settings::NAMES;
use runtime_abi::settings::Without;
use std::fs::File;
use std::num::NonZeroU64;
use std::path::Path;

/// Words that are tried for each setting: most say something of some, and 7 is a number.
const WORDS: u64 = 8;

/// Settings that differ from the default in one, by its name: all that these words can say.
fn others() -> Vec<(&'static str, RunSettings)> {
    let default = RunSettings::default().to_words();
    let mut all = Vec::new();
    for index in 0..COUNT {
        for word in 0..WORDS {
            let mut words = default;
            words[index] = word;
            let settings = RunSettings::from_words(words).ok();
            let settings = settings
                .filter(|_| words != default)
                .map(with_method_and_scope_that_agree);
            all.extend(settings.map(|settings| (NAMES[index], settings)));
        }
    }
    all
}

/// A run of scope inputs that is said to be of light is one of an earlier version.
fn with_method_and_scope_that_agree(mut settings: RunSettings) -> RunSettings {
    if settings.scope == Scope::Inputs {
        settings.method = Method::Inputs;
    }
    settings
}

fn names(all: &[(&'static str, RunSettings)]) -> Vec<&'static str> {
    let mut names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    names.dedup();
    names
}

#[test]
fn each_setting_comes_back_from_the_control_file() {
    let folder = tempfile::TempDir::new().expect("a temporary directory");
    let path = folder.path().join("control");
    let all = others();
    assert_eq!(names(&all), NAMES);
    for (name, settings) in all {
        let setup = ControlSetup {
            settings,
            run_directory: Path::new("/somewhere"),
            call_sites: &[],
            pid: 0,
            beginning: Beginning::default(),
            stack_limit: None,
        };
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        let control = ControlFile::initialise(file.expect("created"), &path, &setup).expect("written");
        assert_eq!(control.header().expect("read").settings, settings, "{name}");
        let opened = ControlFile::open(&path).expect("opened");
        assert_eq!(opened.header().expect("read").settings, settings, "{name}");
    }
}

/// A `run.json` of the first version, with what it says of settings.
fn run_json(settings: &str) -> String {
    format!(
        r#"{{"version":1,"refrain":"0.1.0","abi_version":8,"argv":["./p"],"cwd":"/","env":[],
        "executable":{{"path":"/p","hash":"00","bytes":1}},"libraries":[],{settings},"started":1}}"#
    )
}

fn read(settings: &str) -> Result<RunSettings, String> {
    let meta: Result<RunMeta, _> = serde_json::from_str(&run_json(settings));
    meta.map(|meta| meta.settings).map_err(|error| error.to_string())
}

#[test]
fn each_setting_comes_back_from_run_json() {
    let mut meta: RunMeta = serde_json::from_str(&run_json(r#""method":"light","scope":"memory""#)).expect("read");
    let all = others();
    assert_eq!(names(&all), NAMES);
    for (name, settings) in all {
        meta.settings = settings;
        let text = serde_json::to_string(&meta).expect("written");
        let again: RunMeta = serde_json::from_str(&text).expect("read again");
        assert_eq!(again, meta, "{name}: {text}");
    }
}

#[test]
fn runs_of_earlier_versions_have_their_settings() {
    let first = read(r#""method":"light","scope":"memory""#);
    assert_eq!(first, Ok(RunSettings::default()));
    // Scope inputs was said to be of light.
    let inputs = r#""method":"light","scope":"inputs","sync_order":true,"chaos_seed":null,"log_bytes_max":null"#;
    let expected = RunSettings {
        method: Method::Inputs,
        scope: Scope::Inputs,
        sync_order: true,
        ..RunSettings::default()
    };
    assert_eq!(read(inputs), Ok(expected));
    let others = r#""method":"light","without":["o1","o2"],"scope":"memory","chaos_seed":7,"log_bytes_max":4096"#;
    let expected = RunSettings {
        without: Without::O1.and(Without::O2),
        chaos_seed: NonZeroU64::new(7),
        log_bytes_max: NonZeroU64::new(4096),
        ..RunSettings::default()
    };
    assert_eq!(read(others), Ok(expected));
}

#[test]
fn what_means_nothing_is_named() {
    for (settings, setting) in [
        (r#""method":"magic","scope":"memory""#, "method"),
        (r#""method":"light","scope":"everything""#, "scope"),
        (r#""method":"light","scope":"memory","chaos_seed":-1"#, "chaos_seed"),
        (r#""method":"light","scope":"memory","without":"o1""#, "without"),
        (r#""method":"light","scope":"memory","sync_order":{}"#, "sync_order"),
        (r#""method":"light""#, "scope"),
    ] {
        let error = read(settings).expect_err(settings);
        assert!(error.contains(&format!("`{setting}`")), "{settings}: {error}");
    }
    // What other versions may say besides is no matter of ours.
    assert!(read(r#""method":"light","scope":"memory","colour":"blue""#).is_ok());
}
