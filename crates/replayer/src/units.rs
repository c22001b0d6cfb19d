//! From the number of a unit in a trace to what is kept of it in the program.
use instrumentor::units::Unit;
use instrumentor::units::UnitError;
use instrumentor::units::Units;
use run_store::RunDirectory;
use std::fs;
use std::path::Path;

/// The units of all objects of a program, in the order in which they registered.
#[derive(Debug, Default)]
pub struct UnitBook {
    objects: Vec<Object>,
}

#[derive(Debug)]
struct Object {
    /// Number of the object's first site.
    base: u32,
    sites: u32,
    units: Units,
}

impl UnitBook {
    /// An object that has none is left out; one whose units are damaged is not.
    pub fn load(run: &RunDirectory) -> Result<UnitBook, UnitError> {
        let listing = fs::read_to_string(run.file("objects")).unwrap_or_default();
        let mut objects = Vec::new();
        for line in listing.lines() {
            let mut fields = line.splitn(3, ' ');
            let mut number = || fields.next()?.parse::<u32>().ok();
            let (Some(base), Some(bytes), Some(path)) = (number(), number(), fields.next()) else {
                continue;
            };
            match Units::read(Path::new(path)) {
                Ok(units) => objects.push(Object {
                    base,
                    sites: bytes / 16,
                    units,
                }),
                Err(UnitError::NothingKept { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(UnitBook { objects })
    }

    pub fn find(&self, number: u32) -> Option<&Unit> {
        let is_of = |object: &&Object| number.wrapping_sub(object.base) < object.sites;
        let object = self.objects.iter().find(is_of)?;
        object.units.numbered(number - object.base)
    }
}
