//! Axes: the position of a value, and the labelled values.

use super::number;

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Where, from 0 to 1.
    pub at: f64,
    /// What is there; a small mark has none.
    pub label: Option<String>,
}

/// What an axis shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Bytes, by powers of two.
    Size,
    /// Nanoseconds, by powers of ten.
    Time,
    /// 10⁹ bytes a second, by powers of ten.
    Bandwidth,
    /// Nanoseconds since the start, evenly.
    Since,
    /// Shares, by their nines: half, 90 %, 99 %, …
    Nines,
}

/// An axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
}

/// Labels on an axis, at most.
const MOST_LABELS: f64 = 6.0;

impl Scale {
    /// An axis that holds all these; `None` if there are none that it can hold.
    pub(super) fn over(kind: Kind, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in values.into_iter().filter_map(|value| place(kind, value)) {
            (low, high) = (low.min(place), high.max(place));
        }
        if low > high {
            return None;
        }
        (low, high) = match kind {
            Kind::Size => (low, high.max(low + 1.0)),
            Kind::Time | Kind::Bandwidth => rounded(low, high),
            Kind::Since => (0.0, high.max(1.0)),
            Kind::Nines => (0.0, high.ceil().max(1.0)),
        };
        Some(Self { kind, low, high })
    }

    /// From 0 to 1; what lies beyond an end is put there.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        place(self.kind, value).map(|place| ((place - self.low) / (self.high - self.low)).clamp(0.0, 1.0))
    }

    /// Its marks.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let span = self.high - self.low;
        let tick = |place: f64, label: Option<String>| Tick { at: (place - self.low) / span, label };
        let inside = |place: &f64| (self.low - 1e-9..=self.high + 1e-9).contains(place);
        match self.kind {
            Kind::Size => {
                let step = (span / MOST_LABELS).ceil().max(1.0);
                let first = (self.low / step).ceil() * step;
                let places = (0..=MOST_LABELS as u32 + 1).map(|n| first + f64::from(n) * step).filter(inside);
                places.map(|place| tick(place, Some(number::size(place.exp2())))).collect()
            }
            Kind::Time | Kind::Bandwidth => decades(self.low, self.high)
                .filter(|(place, _)| inside(place))
                .map(|(place, labelled)| {
                    let value = 10f64.powf(place);
                    let name = || match self.kind {
                        Kind::Time => short(number::time(value, value)),
                        _ => short(number::gb_s(value)),
                    };
                    tick(place, labelled.then(name))
                })
                .collect(),
            Kind::Since => {
                let step = even_step(span);
                let places = (0..=MOST_LABELS as u32 + 1).map(|n| f64::from(n) * step).filter(inside);
                places.map(|place| tick(place, Some(short(number::time(place, 0.0))))).collect()
            }
            Kind::Nines => {
                let step = (span / MOST_LABELS).ceil().max(1.0);
                let whole = (0..=MOST_LABELS as u32 + 1).map(|n| f64::from(n) * step).filter(inside);
                let half = (span <= 4.0).then_some(std::f64::consts::LOG10_2);
                let share = |place: f64| match place {
                    // More nines than anybody counts.
                    place if place > 5.5 => format!("1 − 10{}", superscript(place)),
                    place => number::percent(1.0 - 10f64.powf(-place)),
                };
                whole.chain(half).map(|place| tick(place, Some(share(place)))).collect()
            }
        }
    }
}

/// A negative whole exponent.
fn superscript(exponent: f64) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{exponent:.0}");
    let raised = text.bytes().filter_map(|byte| digits.get(usize::from(byte.wrapping_sub(b'0'))));
    std::iter::once('⁻').chain(raised.copied()).collect()
}

/// `10.0 ns` is `10 ns` beside an axis.
fn short(label: String) -> String {
    label.replace(".00\u{a0}", "\u{a0}").replace(".0\u{a0}", "\u{a0}")
}

/// Where a value lies before the axis is stretched to its length.
fn place(kind: Kind, value: f64) -> Option<f64> {
    match kind {
        Kind::Size => (1.0..1e18).contains(&value).then(|| value.log2()),
        Kind::Time | Kind::Bandwidth => (1e-12..1e18).contains(&value).then(|| value.log10()),
        Kind::Since => (0.0..1e18).contains(&value).then_some(value),
        // Beyond twelve nines no run is long enough.
        Kind::Nines => (0.0..=1.0).contains(&value).then(|| (-(1.0 - value).log10()).clamp(0.0, 12.0)),
    }
}

/// Ends on 1, 2 or 5 of a decade, at least two thirds of a decade apart.
fn rounded(low: f64, high: f64) -> (f64, f64) {
    let steps = [0.0, 2f64.log10(), 5f64.log10(), 1.0];
    let down = |place: f64| {
        let whole = place.floor();
        whole + steps.iter().rev().find(|step| **step <= place - whole + 1e-9).unwrap_or(&0.0)
    };
    let up = |place: f64| {
        let whole = place.floor();
        whole + steps.iter().find(|step| **step >= place - whole - 1e-9).unwrap_or(&1.0)
    };
    let (low, high) = (down(low), up(high));
    if high - low < 0.6 { (down(low - 0.3), up(high + 0.3)) } else { (low, high) }
}

/// Places of marks on a decimal logarithmic axis, and whether they have a label.
fn decades(low: f64, high: f64) -> impl Iterator<Item = (f64, bool)> {
    let span = high - low;
    let step = (span / MOST_LABELS).ceil().max(1.0) as i32;
    (low.floor() as i32..=high.ceil() as i32).flat_map(move |decade| {
        let labelled = decade.rem_euclid(step) == 0;
        [(1.0f64, labelled, true), (2.0, span <= 2.1, span <= 4.0), (5.0, span <= 2.1, span <= 4.0)]
            .into_iter()
            .filter(move |(_, labelled, shown)| *labelled || *shown && step == 1)
            .map(move |(factor, labelled, _)| (f64::from(decade) + factor.log10(), labelled))
    })
}

/// 1, 2 or 5 times a power of ten, so that there are few enough.
fn even_step(span: f64) -> f64 {
    let power = 10f64.powf((span / MOST_LABELS).log10().floor());
    [1.0, 2.0, 5.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| span / step <= MOST_LABELS)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(kind: Kind, low: f64, high: f64) -> Vec<String> {
        let scale = Scale::over(kind, [low, high]).unwrap();
        let mut ticks = scale.ticks();
        ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
        assert!(ticks.iter().all(|tick| (-0.001..=1.001).contains(&tick.at)), "{ticks:?}");
        ticks.into_iter().filter_map(|tick| tick.label).map(|label| label.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn labels_are_round_and_few() {
        assert_eq!(labels(Kind::Size, 4.0, 65_536.0), ["8 B", "64 B", "512 B", "4 KiB", "32 KiB"]);
        assert_eq!(labels(Kind::Time, 58.0, 8800.0), ["100 ns", "1 µs", "10 µs"]);
        assert_eq!(labels(Kind::Time, 61.0, 214.0), ["50 ns", "100 ns", "200 ns", "500 ns"]);
        assert_eq!(
            labels(Kind::Since, 0.0, 3e9),
            ["0 ns", "500 ms", "1 s", "1.50 s", "2 s", "2.50 s", "3 s"]
        );
        assert_eq!(labels(Kind::Nines, 0.0, 0.9995), ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn absurd_values_make_no_absurd_axis() {
        assert_eq!(Scale::over(Kind::Time, []), None);
        assert_eq!(Scale::over(Kind::Time, [-1.0, 0.0, 1e308, f64::NAN]), None);
        for kind in [Kind::Size, Kind::Time, Kind::Bandwidth, Kind::Since, Kind::Nines] {
            for (low, high) in [(1e-11, 9e17), (1.0, 1.0), (0.5, 1.0), (3.0, 3.1)] {
                let Some(scale) = Scale::over(kind, [low, high]) else { continue };
                let ticks = scale.ticks();
                assert!(ticks.len() < 40, "{kind:?} {low} {high}: {}", ticks.len());
                assert!(scale.at(high).is_none_or(|at| (0.0..=1.0).contains(&at)));
            }
        }
    }
}
