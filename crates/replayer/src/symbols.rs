//! Names of global variables and functions: from the symbol tables of what was mapped when the recording began.
use crate::sites::demangled;
use object::Object;
use object::ObjectSegment;
use object::ObjectSymbol;
use object::SymbolKind;
use run_store::RunDirectory;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;

/// It goes up before the message is printed, and down when the panic is caught.
const PANIC_COUNT: &str = "std::panicking::panic_count::GLOBAL_PANIC_COUNT";

/// By address; empty for what was stripped.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Where mappings of files begin and end, with their paths.
    mapped: BTreeMap<u64, (u64, String)>,
    variables: BTreeMap<u64, (u64, String)>,
    functions: BTreeMap<u64, (u64, String)>,
}

impl Symbols {
    /// Reads what it can: a report without names is better than none.
    pub fn load(run: &RunDirectory) -> Symbols {
        let mut symbols = Symbols::default();
        let Ok(maps) = fs::read_to_string(run.file("maps")) else {
            return symbols;
        };
        let mut objects: BTreeMap<&str, u64> = BTreeMap::new();
        for (start, end, path) in maps.lines().filter_map(mapping) {
            symbols.mapped.insert(start, (end, path.to_owned()));
            let lowest = objects.entry(path).or_insert(start);
            *lowest = start.min(*lowest);
        }
        for (path, base) in objects {
            if let Ok(bytes) = fs::read(path) {
                symbols.add(&bytes, base);
            }
        }
        symbols
    }

    fn add(&mut self, bytes: &[u8], base: u64) -> Option<()> {
        let file = object::File::parse(bytes).ok()?;
        // Where the file's lowest address came to lie.
        let lowest = file.segments().map(|segment| segment.address()).min()?;
        let slide = base.wrapping_sub(lowest & !0xfff);
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let names = match symbol.kind() {
                SymbolKind::Data => &mut self.variables,
                SymbolKind::Text => &mut self.functions,
                _ => continue,
            };
            if let Ok(name) = symbol.name()
                && symbol.size() > 0
                && symbol.is_definition()
            {
                names.insert(symbol.address().wrapping_add(slide), (symbol.size(), demangled(name)));
            }
        }
        Some(())
    }

    /// `counter`, or `accounts+24` for a part of something larger.
    pub fn name(&self, address: u64) -> Option<String> {
        name_in(&self.variables, address)
    }

    /// The file that is mapped at this address.
    pub fn object(&self, address: u64) -> Option<&str> {
        let (_, (end, path)) = self.mapped.range(..=address).next_back()?;
        (address < *end).then_some(path.as_str())
    }

    /// Where Rust's standard library counts the panics that are under way.
    pub fn panic_count(&self) -> Option<NonZeroU64> {
        let (address, _) = self.variables.iter().find(|(_, (_, name))| name == PANIC_COUNT)?;
        NonZeroU64::new(*address)
    }

    /// `main+24`
    pub fn function(&self, address: u64) -> Option<String> {
        name_in(&self.functions, address)
    }
}

fn name_in(names: &BTreeMap<u64, (u64, String)>, address: u64) -> Option<String> {
    let (start, (bytes, name)) = names.range(..=address).next_back()?;
    let offset = address - start;
    if offset >= *bytes {
        return None;
    }
    Some(match offset {
        0 => name.clone(),
        _ => format!("{name}+{offset}"),
    })
}

/// Start, end and path of a line of `/proc/self/maps` that maps a file.
fn mapping(line: &str) -> Option<(u64, u64, &str)> {
    let path = &line[line.find('/')?..];
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let address = |digits| u64::from_str_radix(digits, 16).ok();
    Some((address(start)?, address(end)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_names_of_the_variables_they_are_in() {
        let mut symbols = Symbols::default();
        symbols.variables.insert(0x1000, (4, "counter".to_owned()));
        symbols.variables.insert(0x1010, (80, "accounts".to_owned()));
        assert_eq!(symbols.name(0x1000).as_deref(), Some("counter"));
        assert_eq!(symbols.name(0x1004), None);
        assert_eq!(symbols.name(0x1028).as_deref(), Some("accounts+24"));
        assert_eq!(symbols.name(0xfff), None);
    }

    #[test]
    fn maps_are_understood() {
        let line = "555555554000-555555555000 r--p 00000000 fe:00 123   /tmp/a b";
        assert_eq!(mapping(line), Some((0x5555_5555_4000, 0x5555_5555_5000, "/tmp/a b")));
        assert_eq!(mapping("7ffff-80000 rw-p 0 00:00 0 [stack]"), None);
    }
}
