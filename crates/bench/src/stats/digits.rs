//! The number of digits that a clock's step supports.

/// Decimals of a value in `unit_ns` (1 for ns, 1000 for µs) that a resolution of `step_ns`
/// supports, at most `most`.
///
/// The last printed digit is never worth less than the step: a step of 10 ns allows two decimals of
/// a microsecond and no decimal of a nanosecond. Averaging over a batch refines the step by the
/// size of the batch: pass `step / batch`.
pub fn decimals(step_ns: f64, unit_ns: f64, most: usize) -> usize {
    if !(step_ns > 0.0 && unit_ns > 0.0) {
        return most;
    }
    let digits = (unit_ns / step_ns).log10() + 1e-9; // 1e-9: log10(100) must not become 1.999…
    if digits <= 0.0 { 0 } else { (digits.floor() as usize).min(most) }
}

/// `value` (already in the unit) with the decimals that `step_ns` supports; whole units are always
/// printed.
pub fn show(value: f64, step_ns: f64, unit_ns: f64, most: usize) -> String {
    format!("{value:.*}", decimals(step_ns, unit_ns, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_below_the_step() {
        assert_eq!(decimals(10.0, 1.0, 3), 0);
        assert_eq!(decimals(10.0, 1000.0, 3), 2);
        assert_eq!(decimals(9.0, 1000.0, 3), 2);
        assert_eq!(decimals(1.0, 1000.0, 3), 3);
        assert_eq!(decimals(0.37, 1.0, 3), 0);
        assert_eq!(decimals(0.1, 1.0, 3), 1);
        assert_eq!(decimals(0.001, 1000.0, 3), 3);
        assert_eq!(decimals(0.0, 1000.0, 3), 3);
        assert_eq!(decimals(5000.0, 1000.0, 3), 0);
    }

    #[test]
    fn shown() {
        assert_eq!(show(0.6294, 10.0, 1000.0, 3), "0.63");
        assert_eq!(show(0.6294, 0.6, 1000.0, 3), "0.629");
        assert_eq!(show(62.49, 10.0, 1.0, 1), "62");
    }
}
