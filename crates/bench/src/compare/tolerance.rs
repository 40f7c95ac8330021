//! The smallest difference between two results that counts as a change.

use serde::Serialize;

use crate::{
    error::{BenchError, Result},
    quantity::{Dimension, Quantity},
};

/// A difference counts only if it exceeds both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tolerance {
    /// Share of the old value: 0.05 is 5 %.
    pub relative: f64,
    /// The limits in the units of each dimension; see [`Tolerance::with`].
    absolute: Vec<Absolute>,
}

/// The loss that is accepted in one dimension.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Absolute {
    unit: &'static str,
    value: f64,
}

impl Default for Tolerance {
    /// 5 %, and 2 ns (a fifth of the clock step of common machines, many times that of a batch),
    /// 0.1 GB/s, 0.5 M/s, 0.1 MB, 1 ms of processor time a minute.
    fn default() -> Self {
        let defaults = [
            (Dimension::Time, 2.0),
            (Dimension::Bandwidth, 0.1),
            (Dimension::Rate, 0.5),
            (Dimension::Memory, 0.1),
            (Dimension::Processor, 1.0),
        ];
        let absolute = defaults.map(|(dimension, value)| Absolute { unit: dimension.unit(), value });
        Self { relative: 0.05, absolute: absolute.into() }
    }
}

impl Tolerance {
    /// This share, and the usual absolute tolerances.
    pub fn relative(share: f64) -> Self {
        Self { relative: share, ..Self::default() }
    }

    /// Replaces the absolute tolerance of one kind of unit.
    #[must_use]
    pub fn with(mut self, quantity: Quantity) -> Self {
        for absolute in &mut self.absolute {
            if absolute.unit == quantity.dimension.unit() {
                absolute.value = quantity.value;
            }
        }
        self
    }

    /// Replaces several absolute tolerances. Two of the same kind of unit are an error, because one
    /// would be ignored.
    pub fn with_all(mut self, quantities: &[Quantity]) -> Result<Self> {
        for (at, quantity) in quantities.iter().enumerate() {
            let unit = quantity.dimension.unit();
            if quantities[..at].iter().any(|before| before.dimension == quantity.dimension) {
                return Err(BenchError::Usage(format!(
                    "--absolute is given twice for units like {unit}: give it once for each kind of unit"
                )));
            }
            self = self.with(*quantity);
        }
        Ok(self)
    }

    /// The absolute tolerance of a figure in this unit; 0 for a unit that is not known.
    pub fn absolute(&self, unit: &str) -> f64 {
        let in_unit = |absolute: &Absolute| Quantity::of(absolute.value, absolute.unit)?.in_unit(unit);
        self.absolute.iter().find_map(in_unit).unwrap_or(0.0)
    }

    /// The tolerance as text.
    pub fn describe(&self) -> String {
        let all: Vec<String> =
            self.absolute.iter().map(|absolute| format!("{} {}", absolute.value, absolute.unit)).collect();
        format!("{} % and {}", self.relative * 100.0, all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_has_its_own() {
        let tolerance = Tolerance::default().with(Quantity::parse("3us").unwrap());
        assert_eq!((tolerance.absolute("ns"), tolerance.absolute("us")), (3000.0, 3.0));
        assert_eq!((tolerance.absolute("GB/s"), tolerance.absolute("furlongs")), (0.1, 0.0));
        let all = |texts: [&str; 2]| {
            Tolerance::default().with_all(&texts.map(|text| Quantity::parse(text).unwrap()))
        };
        assert_eq!(all(["3us", "1GB/s"]).unwrap().absolute("GB/s"), 1.0);
        for twice in [["2ns", "2ns"], ["2ns", "3us"]] {
            assert!(all(twice).unwrap_err().to_string().contains("twice"), "{twice:?}");
        }
        assert!(tolerance.describe().starts_with("5 % and 3000 ns, 0.1 GB/s"), "{}", tolerance.describe());
    }
}
