//! The fleet's guests have as many shared program elements as the programs of the paper that they stand for (CoopREP, table II).
//! How many accesses they make, `cargo xtask bench fleet` looks at.
use crate::Checked;
use crate::failed;
use crate::guest::Guest;
use crate::require;
use crate::sandbox::Sandbox;
use crate::sandbox::trial;
use crate::tool;
use libtest_mimic::Trial;

pub fn trials() -> Result<Vec<Trial>, String> {
    let guests = Guest::all_in(&tool::guests().join("fleet"))?;
    let one = |guest: Guest| {
        let name = format!("fleet/{}", guest.name());
        trial(name, move |sandbox| has_its_elements(sandbox, &guest))
    };
    Ok(guests.into_iter().map(one).collect())
}

fn has_its_elements(sandbox: &Sandbox, guest: &Guest) -> Checked {
    let program = guest.build(sandbox, &[])?;
    let line = sandbox.refrain(["spes", "--json"]).arg(&program);
    let ended = sandbox.run(&line)?.expect_status(0)?;
    let answer: serde_json::Value = match serde_json::from_slice(&ended.stdout) {
        Ok(answer) => answer,
        Err(why) => return failed(ended.told(&format!("no JSON: {why}"))),
    };
    let found = answer["spes"].as_array().map(|spes| spes.len() as u32);
    require(guest.elements.is_some() && found == guest.elements, || {
        ended.told(&format!("expected {:?} elements", guest.elements))
    })
}
