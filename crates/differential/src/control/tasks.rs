//! The kernel's state of a thread: running, sleeping, or ended.

use std::io::Read as _;
use std::sync::OnceLock;

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// It runs, or would if it were let, or waits for a device.
    Runs,
    /// It waits for something that somebody must do.
    Sleeps,
    /// It has ended.
    Gone,
}

/// Looks at a thread.
///
/// By a path of its own, not one below its process: the kernel forgets such paths when either ends, and two
/// that do so at once wait for each other for milliseconds.
pub(super) fn look(tid: u32) -> Task {
    let mut text = [0_u8; 256];
    let path = format!("/proc/{tid}/stat");
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut text));
    let Ok(len) = read else { return Task::Gone };
    state(&text[..len])
}

/// Whether the kernel has put off nothing on this processor, or on any if none is named: what it cannot
/// deliver within a call that sends, because there is too much of it, a thread of its own delivers. Where
/// that thread is not to be seen, it is taken to sleep.
pub(super) fn kernel_is_idle(cpu: Option<usize>) -> bool {
    static DELIVERERS: OnceLock<Vec<(usize, u32)>> = OnceLock::new();
    let all = DELIVERERS.get_or_init(deliverers);
    all.iter().filter(|(of, _)| cpu.is_none_or(|cpu| cpu == *of)).all(|(_, tid)| look(*tid) != Task::Runs)
}

/// The kernel's threads for what was put off, by their processors.
fn deliverers() -> Vec<(usize, u32)> {
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    all.filter_map(|entry| {
        let tid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(format!("/proc/{tid}/comm")).ok()?;
        Some((name.trim_end().strip_prefix("ksoftirqd/")?.parse().ok()?, tid))
    })
    .collect()
}

/// The letter behind the name, which stands in brackets and may hold brackets itself.
fn state(stat: &[u8]) -> Task {
    let letter = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
    match letter {
        Some(b'S') => Task::Sleeps,
        None | Some(b'Z' | b'X' | b'x') => Task::Gone,
        Some(_) => Task::Runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letter_behind_the_name_decides() {
        assert_eq!(state(b"12 (a) S 1 2"), Task::Sleeps);
        assert_eq!(state(b"12 (a) S) R 1 2"), Task::Runs);
        assert_eq!(state(b"12 (a) Z 1 2"), Task::Gone);
        assert_eq!(state(b"12 (a) D 1 2"), Task::Runs);
        assert_eq!(state(b""), Task::Gone);
    }

    #[test]
    fn this_thread_runs_and_a_thread_that_never_was_is_gone() {
        let pid = std::process::id();
        assert_ne!(look(pid), Task::Gone);
        assert_eq!(look(u32::MAX - 1), Task::Gone);
    }
}
