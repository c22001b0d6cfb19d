//! Methods of recording, as a parameter of tests.

/// A way to record accesses to memory.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// In messages, directives and names of runs.
    pub name: &'static str,
    /// Of `refrain record`.
    pub arguments: &'static [&'static str],
}

pub const LIGHT: Method = Method {
    name: "light",
    arguments: &[],
};

/// Those that light is compared with, and light without parts of itself; only some, if a variable says so.
pub fn others() -> impl Iterator<Item = Method> {
    let wanted = std::env::var("REFRAIN_SUITE_METHODS").ok();
    OTHERS.into_iter().filter(move |method| {
        let names = wanted.as_deref();
        names.is_none_or(|names| names.split(',').any(|name| name == method.name))
    })
}

const OTHERS: [Method; 6] = [
    Method {
        name: "leap",
        arguments: &["--method", "leap"],
    },
    Method {
        name: "stride",
        arguments: &["--method", "stride"],
    },
    Method {
        name: "oreo",
        arguments: &["--method", "oreo"],
    },
    Method {
        name: "light-o1",
        arguments: &["--without", "o1"],
    },
    Method {
        name: "light-o2",
        arguments: &["--without", "o2"],
    },
    Method {
        name: "light-o1-o2",
        arguments: &["--without", "o1", "--without", "o2"],
    },
];
