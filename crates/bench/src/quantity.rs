//! Parses numbers with a unit, such as `2ns`, `0.1 GB/s`, `1 ms/min`, and shares such as `5%`.

/// The dimensions of figures; figures of two dimensions are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// A time, in ns.
    Time,
    /// Held in GB/s (10⁹ bytes a second).
    Bandwidth,
    /// Held in M/s (10⁶ a second).
    Rate,
    /// Held in MB (10⁶ bytes).
    Memory,
    /// Processor time, held in ms/min.
    Processor,
}

impl Dimension {
    /// All.
    pub const ALL: [Self; 5] = [Self::Time, Self::Bandwidth, Self::Rate, Self::Memory, Self::Processor];

    /// The unit that it is held in.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::Bandwidth => "GB/s",
            Self::Rate => "M/s",
            Self::Memory => "MB",
            Self::Processor => "ms/min",
        }
    }
}

/// Units, what they measure, and how many of the held unit they are.
const UNITS: [(&str, Dimension, f64); 16] = [
    ("ns", Dimension::Time, 1.0),
    ("us", Dimension::Time, 1e3),
    ("µs", Dimension::Time, 1e3),
    ("ms", Dimension::Time, 1e6),
    ("s", Dimension::Time, 1e9),
    ("GB/s", Dimension::Bandwidth, 1.0),
    ("MB/s", Dimension::Bandwidth, 1e-3),
    ("kB/s", Dimension::Bandwidth, 1e-6),
    ("M/s", Dimension::Rate, 1.0),
    ("k/s", Dimension::Rate, 1e-3),
    ("/s", Dimension::Rate, 1e-6),
    ("GB", Dimension::Memory, 1e3),
    ("MB", Dimension::Memory, 1.0),
    ("kB", Dimension::Memory, 1e-3),
    ("ms/min", Dimension::Processor, 1.0),
    ("s/min", Dimension::Processor, 1e3),
];

/// Dimension of a unit, and how many of the held unit it is.
pub fn unit(name: &str) -> Option<(Dimension, f64)> {
    UNITS.iter().find(|(known, ..)| *known == name).map(|(_, dimension, factor)| (*dimension, *factor))
}

/// A number with a dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// The value, in the unit of its dimension.
    pub value: f64,
    /// The dimension.
    pub dimension: Dimension,
}

impl Quantity {
    /// Makes a quantity of a value in some unit; `None` if the unit is not known.
    pub fn of(value: f64, name: &str) -> Option<Self> {
        unit(name).map(|(dimension, factor)| Self { value: value * factor, dimension })
    }

    /// Its value in another unit; `None` if that measures something else.
    pub fn in_unit(&self, name: &str) -> Option<f64> {
        let (dimension, factor) = unit(name)?;
        (dimension == self.dimension).then(|| self.value / factor)
    }

    /// Parses a number of at least 0 and a unit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            let units: Vec<&str> = UNITS.iter().map(|(name, ..)| *name).collect();
            format!(
                "`{text}` is not a number with a unit, such as 2ns or 0.5 GB/s; units: {}",
                units.join(", ")
            )
        };
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
        let (number, name) = trimmed.split_at(end);
        let value: f64 = number.parse().map_err(|_| wrong())?;
        Self::of(value, name.trim()).filter(|quantity| quantity.value.is_finite()).ok_or_else(wrong)
    }
}

/// A share from text: `5%` or `0.05`. A bare number of 1 and more is refused: 5 would be 500 %.
pub fn share(text: &str) -> Result<f64, String> {
    let wrong =
        || format!("`{text}` is not a share: give a percentage such as 5%, or a number below 1 such as 0.05");
    let trimmed = text.trim();
    let value: f64 = match trimmed.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0,
        None => trimmed.parse().ok().filter(|value: &f64| *value < 1.0).ok_or_else(wrong)?,
    };
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed() {
        for (text, value, dimension) in [
            ("2ns", 2.0, Dimension::Time),
            (" 1.5 us ", 1500.0, Dimension::Time),
            ("3µs", 3000.0, Dimension::Time),
            ("100 MB/s", 0.1, Dimension::Bandwidth),
            ("60M/s", 60.0, Dimension::Rate),
            ("8 MB", 8.0, Dimension::Memory),
            ("60 ms/min", 60.0, Dimension::Processor),
            ("0ns", 0.0, Dimension::Time),
        ] {
            let got = Quantity::parse(text).unwrap();
            assert!((got.value - value).abs() < 1e-9 && got.dimension == dimension, "{text}: {got:?}");
        }
        for text in ["", "2", "ns", "2 parsecs", "-2ns", "1.2.3ns", "2ns3", "NaN ns"] {
            let error = Quantity::parse(text).unwrap_err();
            assert!(error.contains(&format!("`{text}`")) && error.contains("GB/s"), "{error}");
        }
    }

    #[test]
    fn converted() {
        let time = Quantity::parse("2us").unwrap();
        assert_eq!(
            (time.in_unit("ns"), time.in_unit("ms"), time.in_unit("GB/s")),
            (Some(2000.0), Some(0.002), None)
        );
        for dimension in Dimension::ALL {
            assert_eq!(unit(dimension.unit()), Some((dimension, 1.0)));
        }
    }

    #[test]
    fn shares() {
        for (text, value) in [("5%", 0.05), ("0.05", 0.05), (" 12.5 % ", 0.125), ("0", 0.0), ("150%", 1.5)] {
            assert!((share(text).unwrap() - value).abs() < 1e-12, "{text}");
        }
        for text in ["", "5", "x", "-1%", "%", "nan", "inf%"] {
            assert!(share(text).unwrap_err().contains("5%"), "{text}");
        }
    }
}
