//! A set of moments that is nearly always empty or has one element.
use crate::Point;
use crate::ThreadIndex;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// Points in an order. None and one need no memory of their own: a day of recording has hundreds of millions of these.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Points(Few);

/// What one element leaves of a pointer's alignment is the tag. A boxed vector is one word; a boxed slice is two.
#[derive(Clone, Default, PartialEq, Eq)]
enum Few {
    #[default]
    None,
    One {
        thread: ThreadIndex,
        count: u64,
    },
    #[allow(clippy::box_collection, reason = "a vector would make the other variants larger")]
    Many(Box<Vec<Point>>),
}

const _: () = assert!(size_of::<Points>() == 16);

impl Points {
    pub const NONE: Points = Points(Few::None);

    pub fn one(point: Point) -> Points {
        let Point { thread, count } = point;
        Points(Few::One { thread, count })
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Few::None => 0,
            Few::One { .. } => 1,
            Few::Many(points) => points.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, index: usize) -> Option<Point> {
        match &self.0 {
            Few::One { thread, count } if index == 0 => Some(Point {
                thread: *thread,
                count: *count,
            }),
            Few::None | Few::One { .. } => None,
            Few::Many(points) => points.get(index).copied(),
        }
    }

    pub fn first(&self) -> Option<Point> {
        self.get(0)
    }

    pub fn iter(&self) -> Iter<'_> {
        Iter { points: self, next: 0 }
    }

    pub fn push(&mut self, point: Point) {
        match &mut self.0 {
            Few::None => *self = Points::one(point),
            Few::One { thread, count } => {
                let first = Point {
                    thread: *thread,
                    count: *count,
                };
                self.0 = Few::Many(Box::new([first, point].into()));
            }
            Few::Many(points) => points.push(point),
        }
    }
}

/// By value: a point is two words.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    points: &'a Points,
    next: usize,
}

impl Iterator for Iter<'_> {
    type Item = Point;

    #[inline]
    fn next(&mut self) -> Option<Point> {
        let point = self.points.get(self.next)?;
        self.next += 1;
        Some(point)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.points.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Points {
    type Item = Point;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl From<Vec<Point>> for Points {
    fn from(points: Vec<Point>) -> Points {
        match points[..] {
            [] => Points::NONE,
            [point] => Points::one(point),
            _ => Points(Few::Many(Box::new(points))),
        }
    }
}

impl From<&[Point]> for Points {
    fn from(points: &[Point]) -> Points {
        points.iter().copied().collect()
    }
}

impl FromIterator<Point> for Points {
    fn from_iter<I: IntoIterator<Item = Point>>(points: I) -> Points {
        let mut points = points.into_iter();
        match (points.next(), points.next()) {
            (None, _) => Points::NONE,
            (Some(point), None) => Points::one(point),
            (Some(first), Some(second)) => [first, second].into_iter().chain(points).collect::<Vec<_>>().into(),
        }
    }
}

impl fmt::Debug for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_comes_back_in_order() {
        for number in 0..5 {
            let vector: Vec<Point> = (0..number)
                .map(|count| Point {
                    thread: ThreadIndex(7),
                    count,
                })
                .collect();
            let collected: Points = vector.iter().copied().collect();
            let mut pushed = Points::default();
            vector.iter().for_each(|point| pushed.push(*point));
            for points in [
                Points::from(vector.clone()),
                Points::from(&vector[..]),
                collected,
                pushed,
            ] {
                assert_eq!(points.len() as u64, number);
                assert_eq!(points.is_empty(), number == 0);
                assert_eq!(points.first(), vector.first().copied());
                assert_eq!(points.get(number as usize), None);
                assert_eq!(points.iter().collect::<Vec<_>>(), vector);
                assert_eq!(points, vector.clone().into());
            }
        }
    }
}
