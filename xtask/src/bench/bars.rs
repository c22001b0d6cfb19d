//! Horizontal bars as SVG, in groups, each bar in one part or stacked from several; readable on light and dark pages.
use super::plot::head;
use super::plot::line;
use super::plot::text;
use std::fmt::Write;

pub struct Bars {
    pub title: String,
    pub x_label: &'static str,
    pub tick: fn(f64) -> String,
    /// Colour and name of each kind of part.
    pub legend: Vec<(usize, &'static str)>,
    pub groups: Vec<Group>,
}

pub struct Group {
    pub name: String,
    pub bars: Vec<Bar>,
}

pub struct Bar {
    /// Colour and length, from the axis on.
    pub parts: Vec<(usize, f64)>,
    /// Written at its end.
    pub label: String,
}

const WIDTH: f64 = 820.0;
const LEFT: f64 = 136.0;
/// Room for the labels of the longest bars.
const RIGHT: f64 = 150.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 52.0;
const BAR: f64 = 12.0;
const GAP: f64 = 9.0;

impl Bars {
    pub fn svg(&self) -> String {
        let height = TOP + BOTTOM + self.groups.iter().map(Group::height).sum::<f64>();
        let longest = self.groups.iter().flat_map(|group| &group.bars).map(Bar::length);
        let (step, end) = axis(longest.fold(0.0, f64::max));
        let x = |value: f64| LEFT + value / end * (WIDTH - LEFT - RIGHT);
        let mut svg = head(&self.title, WIDTH, height);
        text(&mut svg, "", "start", (LEFT, 24.0), &self.title);
        self.write_legend(&mut svg);
        for tick in 0..=(end / step).round() as u32 {
            let value = f64::from(tick) * step;
            line(&mut svg, "grid", (x(value), TOP), (x(value), height - BOTTOM));
            text(
                &mut svg,
                "",
                "middle",
                (x(value), height - BOTTOM + 18.0),
                &(self.tick)(value),
            );
        }
        let mut y = TOP;
        for group in &self.groups {
            let middle = y + group.height() / 2.0;
            text(&mut svg, "", "end", (LEFT - 8.0, middle + 4.0), &group.name);
            y += GAP / 2.0;
            for bar in &group.bars {
                let mut from = 0.0;
                for (colour, length) in &bar.parts {
                    rectangle(&mut svg, *colour, (x(from), y), x(from + length) - x(from));
                    from += length;
                }
                text(&mut svg, "small", "start", (x(from) + 5.0, y + BAR - 3.0), &bar.label);
                y += BAR;
            }
            y += GAP / 2.0;
        }
        line(&mut svg, "axis", (LEFT, TOP), (LEFT, height - BOTTOM));
        let centre = (LEFT + WIDTH - RIGHT) / 2.0;
        text(&mut svg, "", "middle", (centre, height - 12.0), self.x_label);
        svg.push_str("</svg>\n");
        svg
    }

    fn write_legend(&self, svg: &mut String) {
        let mut x = LEFT;
        for (colour, name) in &self.legend {
            rectangle(svg, *colour, (x, 42.0), 22.0);
            text(svg, "", "start", (x + 28.0, 52.0), name);
            // A little wider than any sans serif writes it.
            x += 28.0 + 7.5 * name.chars().count() as f64 + 18.0;
        }
    }
}

impl Group {
    fn height(&self) -> f64 {
        GAP + BAR * self.bars.len() as f64
    }
}

impl Bar {
    fn length(&self) -> f64 {
        self.parts.iter().map(|(_, length)| length).sum()
    }
}

/// The step between ticks (1, 2 or 5 times a power of ten), and the first one that no bar is longer than.
fn axis(longest: f64) -> (f64, f64) {
    let rough = if longest > 0.0 { longest / 5.0 } else { 0.2 };
    let power = 10f64.powf(rough.log10().floor());
    // Sums of parts may miss a round number by a last bit.
    let fits = |factor: &&f64| *factor * power >= rough * (1.0 - 1e-9);
    let step = power * [1.0, 2.0, 5.0, 10.0].iter().find(fits).unwrap_or(&10.0);
    (step, step * (longest / step * (1.0 - 1e-9)).ceil().max(1.0))
}

fn rectangle(svg: &mut String, colour: usize, at: (f64, f64), width: f64) {
    let _ = writeln!(
        svg,
        "<rect class=\"d{colour}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        at.0,
        at.1,
        width.max(0.0),
        BAR - 1.5
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(axis(1.0), (0.2, 1.0));
        assert_eq!(axis(0.0), (0.2, 0.2));
        assert_eq!(axis(730.0), (200.0, 800.0));
    }

    fn chart(bars: Vec<Bar>) -> String {
        let group = Group {
            name: "a < b".to_owned(),
            bars,
        };
        let bars = Bars {
            title: "t".to_owned(),
            x_label: "x",
            tick: |value| format!("{value}"),
            legend: vec![(0, "first"), (1, "second")],
            groups: vec![group],
        };
        bars.svg()
    }

    #[test]
    fn parts_of_a_bar_touch_and_negative_ones_have_no_length() {
        let svg = chart(vec![Bar {
            parts: vec![(0, 1.0), (1, 1.0)],
            label: "2".to_owned(),
        }]);
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        assert!(svg.contains(&format!("<rect class=\"d1\" x=\"{middle:.1}\"")), "{svg}");
        assert!(svg.contains("a &lt; b"));
        let svg = chart(vec![Bar {
            parts: vec![(0, -1.0)],
            label: String::new(),
        }]);
        assert!(svg.contains("width=\"0.0\""));
    }

    #[test]
    fn no_two_texts_of_a_column_overlap() {
        let bar = |length| Bar {
            parts: vec![(0, length)],
            label: "label".to_owned(),
        };
        let svg = chart(vec![bar(1.0), bar(1.0), bar(0.5)]);
        let rows = svg.lines().filter(|line| line.ends_with(">label</text>"));
        let y = |line: &str| line.split("y=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
        let rows: Vec<f64> = rows.filter_map(y).collect();
        assert_eq!(rows.len(), 3);
        assert!(rows.windows(2).all(|pair| pair[1] - pair[0] >= 11.0), "{rows:?}");
    }
}
