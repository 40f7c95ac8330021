//! A plot: axes, lines, legend, and the same numbers as a table. Lines differ in colour, dashes and marks, so
//! that no one of these is needed to distinguish them.

use std::fmt::Write;

use maud::{Markup, html};

use super::Detail;
use super::scale::{Kind, Scale, Tick};

/// Units of the drawing; it is stretched to the width of its column.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
/// Of the area with lines.
pub(super) const LEFT: f64 = 62.0;
pub(super) const RIGHT: f64 = WIDTH - 14.0;
pub(super) const TOP: f64 = 28.0;
pub(super) const BOTTOM: f64 = HEIGHT - 42.0;

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// What was measured.
    Ours,
    /// What the machine allows.
    Baseline,
    /// What else there is.
    Rival,
    /// One of several.
    Other(usize),
}

impl Look {
    const fn class(self) -> &'static str {
        match self {
            Self::Ours => "l0",
            Self::Baseline => "l1",
            Self::Rival => "l2",
            Self::Other(n) => ["l3", "l4", "l5", "l6"][n % 4],
        }
    }

    /// Its mark around a place.
    fn mark(self, x: f64, y: f64) -> Markup {
        let class = self.class();
        match self {
            Self::Baseline => html! {},
            Self::Ours => html! { circle.mark.(class) cx=(c(x)) cy=(c(y)) r="3.2" {} },
            Self::Rival => html! { path.mark.(class) d={ "M" (c(x - 3.0)) " " (c(y - 3.0)) "h6v6h-6z" } {} },
            Self::Other(n) if n.is_multiple_of(2) => {
                html! { path.mark.(class) d={ "M" (c(x)) " " (c(y - 3.8)) "l3.6 6.4h-7.2z" } {} }
            }
            Self::Other(_) => {
                html! { path.mark.(class) d={ "M" (c(x)) " " (c(y - 4.0)) "l4 4-4 4-4-4z" } {} }
            }
        }
    }
}

/// A line.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub name: String,
    pub look: Look,
    pub points: Vec<(f64, f64)>,
    /// Marks at its points.
    pub marked: bool,
}

/// Numbers behind a plot.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbers {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A plot with its surroundings.
pub(super) struct Plot<'a> {
    /// Of the page, so that screen readers find the title.
    pub id: String,
    pub title: &'a str,
    /// What it shows, in a sentence or two: what a reader that sees no picture is told.
    pub said: String,
    pub x: (Kind, &'a str),
    pub y: (Kind, &'a str),
    pub series: Vec<Series>,
    pub numbers: Numbers,
    pub detail: Detail,
}

/// A coordinate: a tenth of a unit is finer than a screen.
pub(super) fn c(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// From a share of the axis to the place in the drawing.
pub(super) fn across(share: f64) -> f64 {
    LEFT + share * (RIGHT - LEFT)
}

/// The same for the other axis, which goes up.
pub(super) fn up(share: f64) -> f64 {
    BOTTOM - share * (BOTTOM - TOP)
}

/// Area, grid, labels and names of the axes.
pub(super) fn frame(x: &Scale, y: &Scale, x_name: &str, y_name: &str) -> Markup {
    let anchor = |tick: &Tick| match tick.at {
        at if at > 0.97 => "end",
        _ => "middle",
    };
    html! {
        @for tick in y.ticks() {
            line.grid.minor[tick.label.is_none()] x1=(c(LEFT)) x2=(c(RIGHT)) y1=(c(up(tick.at))) y2=(c(up(tick.at))) {}
            @if let Some(label) = &tick.label {
                text.tick x=(c(LEFT - 7.0)) y=(c(up(tick.at) + 4.0)) text-anchor="end" { (label) }
            }
        }
        @for tick in x.ticks() {
            line.grid.minor[tick.label.is_none()] x1=(c(across(tick.at))) x2=(c(across(tick.at))) y1=(c(TOP)) y2=(c(BOTTOM)) {}
            @if let Some(label) = &tick.label {
                text.tick x=(c(across(tick.at))) y=(c(BOTTOM + 17.0)) text-anchor=(anchor(&tick)) { (label) }
            }
        }
        path.axis d={ "M" (c(LEFT)) " " (c(TOP)) "V" (c(BOTTOM)) "H" (c(RIGHT)) } {}
        text.name x="2" y="14" { (y_name) }
        text.name x=(c(RIGHT)) y=(c(HEIGHT - 5.0)) text-anchor="end" { (x_name) }
    }
}

/// The places of a line that the axes can show.
fn places(points: &[(f64, f64)], x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    points.iter().filter_map(|(at, value)| Some((across(x.at(*at)?), up(y.at(*value)?)))).collect()
}

/// A line through places.
pub(super) fn path(places: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (at, (x, y)) in places.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(d, "{}{} {}", if at == 0 { "M" } else { "L" }, c(*x), c(*y));
    }
    d
}

fn drawn(series: &Series, x: &Scale, y: &Scale) -> Markup {
    let places = places(&series.points, x, y);
    html! {
        @if places.len() > 1 { path.line.(series.look.class()) d=(path(&places)) {} }
        // A single point is no line, and must be seen all the same.
        @if series.marked || places.len() == 1 {
            @for (x, y) in &places { (series.look.mark(*x, *y)) }
        }
    }
}

/// One entry of a legend.
fn swatch(series: &Series) -> Markup {
    html! {
        li {
            svg.swatch viewBox="0 0 34 12" aria-hidden="true" {
                path.line.(series.look.class()) d="M1 6H33" {}
                @if series.marked { (series.look.mark(17.0, 6.0)) }
            }
            (series.name)
        }
    }
}

/// Numbers as a table that opens on demand, and on paper.
pub(super) fn table(numbers: &Numbers, what: &str, detail: Detail) -> Markup {
    html! {
        @if !numbers.rows.is_empty() && detail == Detail::Full {
            details {
                summary { "Numbers" span.hidden { ": " (what) } }
                div.scroll tabindex="0" role="region" aria-label={ "Numbers: " (what) } {
                    table.numbers {
                        thead { tr { @for name in &numbers.head { th scope="col" { (name) } } } }
                        tbody {
                            @for row in &numbers.rows {
                                tr {
                                    @for (at, cell) in row.iter().enumerate() {
                                        @if at == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The whole; nothing if there is nothing that could be drawn.
pub(super) fn plot(plot: &Plot) -> Option<Markup> {
    let all = || plot.series.iter().flat_map(|series| series.points.iter().copied());
    let x = Scale::over(plot.x.0, all().map(|point| point.0))?;
    let y = Scale::over(plot.y.0, all().map(|point| point.1))?;
    let shown: Vec<&Series> =
        plot.series.iter().filter(|series| !places(&series.points, &x, &y).is_empty()).collect();
    let (title_id, said_id) = (format!("{}-t", plot.id), format!("{}-d", plot.id));
    Some(html! {
        figure.plot id=(plot.id) {
            figcaption {
                h3 id=(title_id) { (plot.title) }
                p.said id=(said_id) { (plot.said) }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-labelledby=(title_id) aria-describedby=(said_id) {
                (frame(&x, &y, plot.x.1, plot.y.1))
                // What was measured lies above what it is compared with.
                @for series in shown.iter().rev() { (drawn(series, &x, &y)) }
            }
            ul.legend { @for series in &shown { (swatch(series)) } }
            (table(&plot.numbers, plot.title, plot.detail))
        }
    })
}
