//! Small traces as text, and what becomes of them; every schedule also goes before the judge.
mod enforcement;
mod errors;
mod figures;
mod granules;
mod oracle;
mod random;
mod trace;
