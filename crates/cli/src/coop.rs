//! `refrain record --method coop`: which elements of the program are recorded.
use crate::Failure;
use crate::output::count;
use crate::output::say;
use partial_logs::BuildId;
use partial_logs::ElementId;
use partial_logs::pattern::Family;
use partial_logs::pattern::PATTERNS;
use partial_logs::pattern::WHOLE;
use replayer::Campaign;
use replayer::Method;
use replayer::RunSettings;
use replayer::fleet;
use replayer::fleet::Advice;
use run_store::Store;
use runtime_abi::vectors_file::CHOSEN_FILE_NAME;
use runtime_abi::vectors_file::SOURCES_FILE_NAME;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

/// How much is recorded if nothing is said.
pub const SHARE_BY_DEFAULT: u64 = 2_500;

/// `25%`, in hundredths of a percent.
pub fn share(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a share, such as 25% or 12.5%");
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let percent: f64 = number.trim().parse().map_err(|_| wrong())?;
    if !(percent > 0.0 && percent <= 100.0) {
        return Err("a share is more than 0% and at most 100%".to_owned());
    }
    Ok(((percent * 100.0).round() as u64).max(1))
}

/// What the settings of a recording have of `--share` and `--pattern`, or why they make no sense.
pub fn settings(
    settings: RunSettings,
    share: Option<u64>,
    pattern: Option<u16>,
    arbitrary: u64,
) -> Result<RunSettings, Failure> {
    if settings.method != Method::Coop {
        return match (share, pattern) {
            (None, None) => Ok(settings),
            _ => Err(Failure::usage(
                "--share and --pattern choose what --method coop records; other methods record everything",
            )),
        };
    }
    let number = match pattern {
        Some(number) if number < PATTERNS => u64::from(number),
        Some(number) => {
            return Err(Failure::usage(format!(
                "--pattern {number}: there are {PATTERNS} patterns, from 0 on"
            )));
        }
        None => arbitrary % u64::from(PATTERNS),
    };
    Ok(RunSettings {
        share: NonZeroU64::new(share.unwrap_or(SHARE_BY_DEFAULT)),
        pattern: NonZeroU64::new(number + 1),
        ..settings
    })
}

/// Chooses the elements, and leaves them for the runtime.
pub fn prepare(campaign: &mut Campaign, store: &Store) -> Result<(), Failure> {
    let settings = campaign.recording.settings;
    if settings.method != Method::Coop {
        return Ok(());
    }
    let meta = campaign.recording.describe()?;
    let program = Path::new(meta.executable.path.as_os_str());
    let elements = fleet::elements_of(program)?;
    if !fleet::is_in_parts(program) {
        say(format_args!(
            "{} was not built with `refrain cc --coop`: a part of it can be recorded, but costs nearly as much as the whole",
            program.display()
        ));
    }
    let build: BuildId = fleet::build_of(&meta)?;
    let advice = Advice::load(store, build);
    let cost = |id: ElementId| advice.costs.get(&id.0).copied().unwrap_or(1).max(1);
    let costs: BTreeMap<ElementId, u64> = elements.iter().map(|element| (element.id, cost(element.id))).collect();
    let share = settings.share.map_or(WHOLE, |share| share.get() as u16);
    let number = settings.pattern.map_or(0, |number| number.get() as u16 - 1);
    let family = Family::new(share, &costs, &advice.without_order());
    let chosen = family.elements(number).cloned().unwrap_or_default();
    campaign
        .recording
        .files
        .push((CHOSEN_FILE_NAME, fleet::chosen_file(&chosen)));
    campaign.recording.files.push((SOURCES_FILE_NAME, Vec::new()));
    say(format_args!(
        "recording {} of {} (pattern {number} of {} %)",
        chosen.len(),
        count(elements.len() as u64, "shared program element"),
        f64::from(share) / 100.0
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents() {
        assert_eq!(share("25%"), Ok(2_500));
        assert_eq!(share("12.5%"), Ok(1_250));
        assert_eq!(share("16.7%"), Ok(1_670));
        assert_eq!(share("100%"), Ok(10_000));
        for wrong in ["25", "0%", "101%", "-3%", "x%", "%", "nan%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
