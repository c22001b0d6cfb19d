//! The fields of everything that a search knows, in the order in which they are written.
use super::Reader;
use super::Stored;
use super::Unusable;
use crate::Access;
use crate::AccessId;
use crate::Advancing;
use crate::Caching;
use crate::Ending;
use crate::Label;
use crate::Layer;
use crate::Minimising;
use crate::Outcome;
use crate::Plan;
use crate::PointKind;
use crate::Reduction;
use crate::ScheduleEdit;
use crate::Scope;
use crate::Spot;
use crate::Statistics;
use crate::SwitchPoint;
use crate::Tuning;
use crate::Window;
use crate::cache::Cache;
use crate::cache::Key;
use crate::cache::Reach;
use crate::cache::Step;
use crate::failure::Cursor;
use crate::failure::Failure;
use crate::failure::Pass;
use crate::failure::Recalling;
use crate::footprints::Footprints;
use crate::footprints::Touched;
use crate::minimise::Minimisation;
use crate::scatter::Scatter;
use crate::search::Phase;
use crate::tree::Choice;
use crate::tree::Floor;
use crate::tree::Node;
use crate::tree::Tail;
use crate::tree::Tree;
use run_model::ThreadIndex;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

macro_rules! fields {
    ($($type:ident { $($field:tt),* })*) => {$(
        impl Stored for $type {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)*
            }

            fn read(from: &mut Reader) -> Result<$type, Unusable> {
                Ok($type { $($field: Stored::read(from)?),* })
            }
        }
    )*};
}

macro_rules! alternatives {
    ($($type:ident { $($number:literal = $name:ident { $($field:tt : $bound:ident),* }),* })*) => {$(
        impl Stored for $type {
            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $($type::$name { $($field: $bound),* } => {
                        out.push($number);
                        $($bound.write(out);)*
                    })*
                }
            }

            fn read(from: &mut Reader) -> Result<$type, Unusable> {
                match from.byte()? {
                    $($number => Ok($type::$name { $($field: Stored::read(from)?),* }),)*
                    _ => Err(from.damaged(concat!("no such ", stringify!($type)))),
                }
            }
        }
    )*};
}

fields! {
    Label { 0 }
    ThreadIndex { 0 }
    Spot { thread, calls, nth }
    AccessId { block, address, nth }
    Plan { edits }
    Window { from }
    SwitchPoint { spot, label, kind, object, is_after, next, to, runnable }
    Access { id, label, is_write, passed, next, is_beyond }
    Tuning {
        layers, bound_first, bound_max, windows_first, windows_max, scope, caching, reduction, minimising, advancing,
        races_max, scattered_max
    }
    Statistics {
        attempts, opening, point_traces, access_traces, recalled, coarse, fine, scattered, minimising, unused, failures, cache_hits,
        windows, windows_traced, window_preemptions, window_races, left_out, duplicates, edits_admitted, edits_needed
    }
    Reach { who, label, back, is_synchronisation }
    Cache { recipes }
    Footprints { blocks, stretches, starts }
    Floor { points, accesses }
    Choice { made, floor, passed, next, tail }
    Node { plan, floor, shared, points, expanded, choices }
    Tree { window, levels }
    Cursor { round, window, layers, depth, node, layer, choice, has_tried }
    Failure {
        ending, met, stands, points, accesses, recalled, recalled_next, recalling, pass, trees, cursor, seen, footprints,
        is_reduced, scatter
    }
    Scatter { is_made, plans, next, enumerated }
    Minimisation { part, start, has_dropped }
}

alternatives! {
    ScheduleEdit {
        0 = Preempt { at: at, to: to },
        1 = Reverse { hold: hold, until: until },
        2 = Delay { hold: hold },
        3 = Advance { at: at, to: to }
    }
    PointKind { 0 = Synchronisation {}, 1 = Call {} }
    Ending {
        0 = Complete {},
        1 = Mismatch { thread: thread, expected: expected, found: found },
        2 = Deadlock { thread: thread, label: label }
    }
    Layer { 0 = Synchronisations {}, 1 = Accesses {}, 2 = Calls {}, 3 = FirstSynchronisations {}, 4 = FirstAccesses {} }
    Scope { 0 = Windows {}, 1 = WholeRun {} }
    Caching { 0 = On {}, 1 = Off {} }
    Reduction { 0 = On {}, 1 = Off {} }
    Minimising { 0 = On {}, 1 = Off {} }
    Advancing { 0 = On {}, 1 = Off {} }
    Key { 0 = Unmatched { expected: expected, found: found }, 1 = Deadlock { label: label } }
    Step {
        0 = Preempt { who: who, kind: kind, back: back, to: to },
        1 = Reverse { hold: hold, until: until },
        2 = Delay { hold: hold },
        3 = Advance { who: who, kind: kind, back: back, to: to }
    }
    Touched { 0 = Object { 0: object }, 1 = Address { 0: address } }
    Tail { 0 = Keep {}, 1 = Drop {} }
    Recalling { 0 = NotYet {}, 1 = Plain {}, 2 = WithAccesses {}, 3 = Over {} }
    Pass { 0 = Reduced {}, 1 = Full {} }
    Outcome {
        0 = Found { 0: plan },
        1 = Exhausted { met: met },
        2 = Unsteady { expected: expected, met: met },
        3 = Stopped {}
    }
    Phase { 0 = Opening {}, 1 = Failed { 0: failure }, 2 = Minimising { 0: minimisation }, 3 = Over { 0: outcome } }
}

impl<K: Stored + Ord + Clone, V: Stored + Clone> Stored for BTreeMap<K, V> {
    fn write(&self, out: &mut Vec<u8>) {
        self.len().write(out);
        for (key, value) in self {
            key.write(out);
            value.write(out);
        }
    }

    fn read(from: &mut Reader) -> Result<BTreeMap<K, V>, Unusable> {
        let entries: Vec<(K, V)> = Stored::read(from)?;
        if !entries.is_sorted_by(|one, other| one.0 < other.0) {
            return Err(from.damaged("entries out of order"));
        }
        Ok(entries.into_iter().collect())
    }
}

impl<T: Stored + Ord> Stored for BTreeSet<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.len().write(out);
        self.iter().for_each(|element| element.write(out));
    }

    fn read(from: &mut Reader) -> Result<BTreeSet<T>, Unusable> {
        let elements: Vec<T> = Stored::read(from)?;
        if !elements.is_sorted_by(|one, other| one < other) {
            return Err(from.damaged("entries out of order"));
        }
        Ok(elements.into_iter().collect())
    }
}
