//! Selects the processors that a benchmark runs on.

use std::fs;

use crate::{
    error::{BenchError, Result},
    rivals::placement,
};

/// Processors that this process may use.
pub fn allowed() -> Result<Vec<usize>> {
    Ok(shm::cpu::allowed_cpus()?.iter().collect())
}

/// Returns two processors for `what`: the given ones, or the first allowed one and the next one
/// that is not a thread of the same core.
pub fn pair(asked: Option<[usize; 2]>, what: &'static str) -> Result<[usize; 2]> {
    let allowed = allowed()?;
    if let Some([near, far]) = asked {
        for cpu in [near, far] {
            placement::usable(cpu, &allowed, &placement::online())?;
        }
        return if near == far {
            Err(BenchError::TooFewCpus { what, allowed: vec![near] })
        } else {
            Ok([near, far])
        };
    }
    choose(&allowed, &siblings).ok_or(BenchError::TooFewCpus { what, allowed })
}

/// Makes sure that this process may use these two processors, if any are given.
pub fn check(asked: Option<[usize; 2]>, what: &'static str) -> Result<()> {
    asked.map_or(Ok(()), |asked| pair(Some(asked), what).map(drop))
}

/// Returns the threads of the same core, as the kernel lists them; only the processor itself if the
/// kernel has no list.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).map(|list| parse_list(&list)).unwrap_or_else(|_| vec![cpu])
}

fn choose(allowed: &[usize], siblings: &dyn Fn(usize) -> Vec<usize>) -> Option<[usize; 2]> {
    let &first = allowed.first()?;
    let same_core = siblings(first);
    let others = || allowed.iter().copied().filter(|cpu| *cpu != first);
    let far = others().find(|cpu| !same_core.contains(cpu)).or_else(|| others().next())?;
    Some([first, far])
}

/// A kernel's list of numbers: `0-3,8`.
fn parse_list(text: &str) -> Vec<usize> {
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            Some(low.parse::<usize>().ok()?..=high.parse::<usize>().ok()?)
        })
        .flatten()
        .collect()
}

/// Processors as the kernel lists them, such as `0-1,4`.
pub fn ranges(cpus: &[usize]) -> String {
    let mut runs: Vec<[usize; 2]> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some([_, last]) if *last + 1 == cpu => *last = cpu,
            _ => runs.push([cpu, cpu]),
        }
    }
    let shown = |[first, last]: &[usize; 2]| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(shown).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_core_rather_than_another_thread() {
        let pairs = |cpu: usize| vec![cpu & !1, cpu | 1];
        assert_eq!(choose(&[0, 1, 2, 3], &pairs), Some([0, 2]));
        assert_eq!(choose(&[0, 1], &pairs), Some([0, 1]));
        assert_eq!(choose(&[5], &pairs), None);
        assert_eq!(choose(&[], &pairs), None);
    }

    #[test]
    fn lists() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("7"), [7]);
        assert_eq!(parse_list("x"), Vec::<usize>::new());
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let here = allowed().unwrap();
        assert!(matches!(pair(Some([here[0], here[0]]), "test"), Err(BenchError::TooFewCpus { .. })));
        assert!(
            matches!(pair(Some([here[0], 9_999_999]), "test"), Err(BenchError::Usage(text)) if text.contains("9999999"))
        );
    }

    #[test]
    fn processors_are_listed_as_the_kernel_lists_them() {
        assert_eq!(ranges(&[0, 1, 4, 6, 7, 8]), "0-1,4,6-8");
        assert_eq!([ranges(&[3]), ranges(&[])], ["3", ""]);
    }
}
