//! The ways in which a program is run.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    Native,
    Light,
    /// Light without the optimisation for accesses that nobody comes between (lemma 4.3).
    WithoutO1,
    /// Light without the one for memory that is always used under the same lock (lemma 4.2): the paper's V_O1.
    WithoutO2,
    /// Light without both: the paper's V_basic.
    Basic,
    Leap,
    Stride,
    Oreo,
}

/// How a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    Native,
    /// With the compile-time half of O2.
    Instrumented,
    /// Without: all but Light know nothing of locks that memory is always used under.
    Everything,
}

impl Variant {
    pub const ALL: [Variant; 8] = [
        Variant::Native,
        Variant::Light,
        Variant::WithoutO1,
        Variant::WithoutO2,
        Variant::Basic,
        Variant::Leap,
        Variant::Stride,
        Variant::Oreo,
    ];
    pub const METHODS: [Variant; 4] = [Variant::Light, Variant::Leap, Variant::Stride, Variant::Oreo];

    pub fn name(self) -> &'static str {
        match self {
            Variant::Native => "native",
            Variant::Light => "Light",
            Variant::WithoutO1 => "Light without O1",
            Variant::WithoutO2 => "Light without O2",
            Variant::Basic => "Light without both",
            Variant::Leap => "LEAP",
            Variant::Stride => "STRIDE",
            Variant::Oreo => "OREO",
        }
    }

    pub fn build(self) -> Build {
        match self {
            Variant::Native => Build::Native,
            Variant::Light | Variant::WithoutO1 => Build::Instrumented,
            _ => Build::Everything,
        }
    }

    /// Arguments of `refrain record`.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Variant::Native => &[],
            Variant::Light => &["--method", "light"],
            Variant::WithoutO1 => &["--method", "light", "--without", "o1"],
            Variant::WithoutO2 => &["--method", "light", "--without", "o2"],
            Variant::Basic => &["--method", "light", "--without", "o1", "--without", "o2"],
            Variant::Leap => &["--method", "leap"],
            Variant::Stride => &["--method", "stride"],
            Variant::Oreo => &["--method", "oreo"],
        }
    }

    /// The same in all charts.
    pub const fn colour(self) -> usize {
        match self {
            Variant::Leap => 2,
            Variant::Stride => 3,
            Variant::Oreo => 1,
            _ => 0,
        }
    }
}
