//! Statistics of one program's outcomes on both sides: does one side do what the other never does,
//! and can that be chance?

/// What one run came to, line by line.
pub(crate) type Outcome = Vec<String>;

/// A chance at which nobody speaks of chance any more: a run looks at some dozens of unstable programs, at
/// each of some dozens of lines, and after each of some dozens of tries.
pub(crate) const HARDLY: f64 = 1e-6;

/// The line that the library alone has, and most often: in which of its runs it came first, and in how many
/// it came.
pub(crate) fn of_library_alone(plain: &[Outcome], library: &[Outcome]) -> Option<(usize, usize)> {
    let lines = library.iter().map(Vec::len).max().unwrap_or(0);
    let mut most: Option<(usize, usize)> = None;
    for at in 0..lines {
        for (run, outcome) in library.iter().enumerate() {
            let text = outcome.get(at);
            if text.is_none() || plain.iter().any(|other| other.get(at) == text) {
                continue;
            }
            let times = library.iter().filter(|other| other.get(at) == text).count();
            if most.is_none_or(|(_, before)| times > before) {
                most = Some((run, times));
            }
        }
    }
    most
}

/// How probable it is that of `2 * runs` runs of two sides that do the same, one side alone has all `times`
/// that something came: Fisher's exact test (Fisher, "Statistical Methods for Research Workers", 1925).
pub(crate) fn chance(times: usize, runs: usize) -> f64 {
    (0..times.min(runs)).map(|at| (runs - at) as f64 / (2 * runs - at) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(of: &[&str]) -> Vec<Outcome> {
        of.iter().map(|text| text.split(' ').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn a_line_that_one_side_alone_has_is_found_with_how_often_it_came() {
        let plain = outcomes(&["a b", "a c", "a b"]);
        assert_eq!(of_library_alone(&plain, &outcomes(&["a c", "a b"])), None);
        assert_eq!(of_library_alone(&plain, &outcomes(&["a b", "x b", "a c", "x c"])), Some((1, 2)));
        assert_eq!(of_library_alone(&plain, &outcomes(&["a b d"])), Some((0, 1)));
        // What the plain side alone does is its own chance.
        assert_eq!(of_library_alone(&plain, &outcomes(&["a"])), None);
    }

    #[test]
    fn chance_falls_with_each_time() {
        assert!((chance(0, 24) - 1.0).abs() < 1e-9 && (chance(1, 24) - 0.5).abs() < 1e-9);
        assert!(chance(5, 24) > HARDLY && chance(18, 24) < HARDLY && chance(18, 60) < HARDLY);
        assert!((1..24).all(|times| chance(times + 1, 24) < chance(times, 24)));
    }
}
