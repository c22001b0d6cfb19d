//! A log-log plot as SVG, readable on light and dark pages.
use std::fmt::Write;

pub struct Plot {
    pub title: &'static str,
    pub x_label: &'static str,
    /// How a power of ten is written at its axis.
    pub x_tick: fn(i32) -> String,
    pub y_tick: fn(i32) -> String,
    pub series: Vec<Series>,
}

pub struct Series {
    /// Index of a colour.
    pub colour: usize,
    pub name: &'static str,
    pub points: Vec<Point>,
    /// Not ours.
    pub dashed: bool,
}

#[derive(Clone, Copy)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// More than this: it was stopped there.
    pub stopped: bool,
}

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;

/// Colours that people with any kind of colour vision can tell apart (Okabe and Ito), darker ones for light pages.
const COLOURS: [(&str, &str); 7] = [
    ("#0072b2", "#56b4e9"),
    ("#009e73", "#2fc79b"),
    ("#d55e00", "#ff8c3a"),
    ("#cc79a7", "#e6a3c8"),
    ("#7a6a00", "#f0e442"),
    ("#5b4bb5", "#a79bff"),
    ("#555555", "#bbbbbb"),
];

impl Plot {
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x_low, x_high) = decades(points().map(|point| point.x));
        let (y_low, y_high) = decades(points().map(|point| point.y));
        let x =
            |value: f64| LEFT + (value.log10() - f64::from(x_low)) / f64::from(x_high - x_low) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| {
            HEIGHT - BOTTOM - (value.log10() - f64::from(y_low)) / f64::from(y_high - y_low) * (HEIGHT - TOP - BOTTOM)
        };
        let mut svg = head(self.title, WIDTH, HEIGHT);
        for power in x_low..=x_high {
            let at = x(10f64.powi(power));
            line(&mut svg, "grid", (at, TOP), (at, HEIGHT - BOTTOM));
            text(
                &mut svg,
                "",
                "middle",
                (at, HEIGHT - BOTTOM + 18.0),
                &(self.x_tick)(power),
            );
        }
        for power in y_low..=y_high {
            let at = y(10f64.powi(power));
            line(&mut svg, "grid", (LEFT, at), (WIDTH - RIGHT, at));
            text(&mut svg, "", "end", (LEFT - 8.0, at + 4.0), &(self.y_tick)(power));
        }
        line(
            &mut svg,
            "axis",
            (LEFT, HEIGHT - BOTTOM),
            (WIDTH - RIGHT, HEIGHT - BOTTOM),
        );
        line(&mut svg, "axis", (LEFT, TOP), (LEFT, HEIGHT - BOTTOM));
        text(&mut svg, "", "start", (LEFT, 24.0), self.title);
        text(
            &mut svg,
            "",
            "middle",
            ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14.0),
            self.x_label,
        );
        for (index, series) in self.series.iter().enumerate() {
            let class = format!("s{}", series.colour % COLOURS.len());
            let dashes = if series.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
            let path: Vec<String> = series
                .points
                .iter()
                .map(|p| format!("{:.1},{:.1}", x(p.x), y(p.y)))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline class=\"{class}\"{dashes} points=\"{}\"/>",
                path.join(" ")
            );
            for point in &series.points {
                dot(&mut svg, &class, (x(point.x), y(point.y)), point.stopped);
            }
            let row = TOP + 14.0 + 24.0 * index as f64;
            let start = WIDTH - RIGHT + 18.0;
            let (from, to) = ((start, row), (start + 28.0, row));
            let _ = writeln!(
                svg,
                "<polyline class=\"{class}\"{dashes} points=\"{},{} {},{}\"/>",
                from.0, from.1, to.0, to.1
            );
            dot(&mut svg, &class, (start + 14.0, row), false);
            text(&mut svg, "", "start", (start + 36.0, row + 4.0), series.name);
        }
        if points().any(|point| point.stopped) {
            let row = TOP + 18.0 + 24.0 * self.series.len() as f64;
            text(
                &mut svg,
                "",
                "start",
                (WIDTH - RIGHT + 18.0, row),
                "hollow: stopped at the limit",
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// The powers of ten around all values.
fn decades(values: impl Iterator<Item = f64>) -> (i32, i32) {
    let (low, high) = values.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let low = low.min(high).log10().floor() as i32;
    (low, (high.log10().ceil() as i32).max(low + 1))
}

pub fn head(title: &str, width: f64, height: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n<style>\n\
         text {{ font: 13px sans-serif; fill: #222; }}\n.small {{ font-size: 11px; }}\n.page {{ fill: #fff; }}\n.grid {{ stroke: #ddd; }}\n\
         .axis {{ stroke: #666; }}\npolyline {{ fill: none; stroke-width: 2; }}\n.hollow {{ fill: #fff; stroke-width: 2; }}\n"
    );
    for (index, (light, _)) in COLOURS.iter().enumerate() {
        let _ = writeln!(svg, ".s{index} {{ stroke: {light}; }} .d{index} {{ fill: {light}; }}");
    }
    svg.push_str("@media (prefers-color-scheme: dark) {\ntext { fill: #ddd; }\n.page, .hollow { fill: #0d1117; }\n");
    svg.push_str(".grid { stroke: #30363d; }\n.axis { stroke: #999; }\n");
    for (index, (_, dark)) in COLOURS.iter().enumerate() {
        let _ = writeln!(svg, ".s{index} {{ stroke: {dark}; }} .d{index} {{ fill: {dark}; }}");
    }
    let _ = writeln!(
        svg,
        "}}\n</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>"
    );
    svg
}

pub fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// `class`: may be empty.
pub fn text(svg: &mut String, class: &str, anchor: &str, at: (f64, f64), words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>",
        at.0, at.1
    );
}

fn dot(svg: &mut String, class: &str, at: (f64, f64), is_hollow: bool) {
    let class = if is_hollow {
        format!("hollow {class}")
    } else {
        class.replace('s', "d")
    };
    let _ = writeln!(
        svg,
        "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
        at.0, at.1
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_powers_of_ten() {
        assert_eq!(decades([0.5, 30.0].into_iter()), (-1, 2));
        assert_eq!(decades([10.0].into_iter()), (1, 2));
    }
}
