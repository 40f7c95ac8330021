//! Handling of Ctrl-C, SIGTERM and SIGHUP. If a command has a cluster of its own, the cluster is removed
//! first; then the command ends with the signal's status. A command that measures ends its measurement
//! instead, prints what it has measured, and then ends with the signal's status. A second signal ends it at
//! once.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use node_client::runtime_dir::ClusterDir;
use shm::process::SignalsBlocked;
use shm::sync::{AtomicBool, AtomicUsize, Ordering};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use verify::own::OwnCluster;

/// Signals that end a command.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Between two looks at what is left.
const PAUSE: Duration = Duration::from_millis(100);
/// So many looks in all; after that, what is left stays.
const ROUNDS: u32 = 100;
/// So many looks must have found nothing: a manager that was being started may only now make its files.
const CALM_ROUNDS: u32 = 3;
/// The same while the rest of the process is still busy, perhaps with starting managers.
const CALM_ROUNDS_WHILE_BUSY: u32 = 8;

/// A signal has come: the second one does not wait.
static ARRIVED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// Which signal came; 0 for none. Set by the handler itself, so before this process can notice anything else
/// that the signal did (its managers may have got it too).
static WHICH: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
/// The command ends by itself, with what it has measured.
static ENDS_EARLY: AtomicBool = AtomicBool::new(false);
/// So long may that take: longer than the longest figure.
const EARLY_END_LIMIT: Duration = Duration::from_secs(20);
/// So often is looked for a signal of which something else has been seen already, and with this pause.
const ARRIVAL_LOOKS: u32 = 20;
const ARRIVAL_PAUSE: Duration = Duration::from_millis(5);
/// The command has stopped where it was and does nothing more.
static HELD: AtomicBool = AtomicBool::new(false);

/// Printed where the command does not end by itself in time.
type Words = Box<dyn FnOnce() + Send>;
static LAST_WORDS: Mutex<Option<Words>> = Mutex::new(None);

/// From now on a signal takes away the cluster in `dir` before it ends the process.
pub(crate) fn take_away_on_signal(dir: ClusterDir) -> std::io::Result<()> {
    let mut signals = {
        let _later = SignalsBlocked::here();
        // First: a process that has a handler that wakes the thread below must also know that a signal has
        // come, or a signal between the two would end nothing: the thread would wait for a command that
        // continues as if nothing had happened.
        note_which()?;
        note_arrival()?;
        Signals::new(SIGNALS)?
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let Some(signal) = first_of(&mut signals) else { return };
        wait_for_early_end(&mut signals);
        if ENDS_EARLY.swap(false, Ordering::Relaxed) {
            // From here on the command prints nothing more by itself.
            let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
            words.into_iter().for_each(|words| words());
        }
        take_away(&dir);
        // As a shell would report a program that the signal ended.
        std::process::exit(128 + signal);
    })?;
    Ok(())
}

/// Waits for the first signal; one that came before there was anything to wait with counts.
fn first_of(signals: &mut Signals) -> Option<i32> {
    if has_arrived() {
        // The same one, if it came in the moment between.
        let pending = signals.pending().next();
        return pending.or_else(|| i32::try_from(noted()).ok());
    }
    signals.forever().next()
}

/// What is printed if a signal has come and the command does not end by itself in time.
pub(crate) fn set_last_words(words: impl FnOnce() + Send + 'static) {
    *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(words));
}

/// There is a result, which is printed instead.
pub(crate) fn no_last_words() {
    drop(LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Calls `register` for each signal that ends a command. What comes meanwhile comes afterwards: a handler
/// stands a moment before it knows what is registered with it, and a signal in that moment would be lost, and
/// end nothing.
pub(crate) fn for_each_signal(register: impl FnMut(i32) -> std::io::Result<()>) -> std::io::Result<()> {
    let _later = SignalsBlocked::here();
    SIGNALS.into_iter().try_for_each(register)
}

/// Has it known which signal came. The first that is registered for each, because from then on the signal
/// itself ends nothing: what comes before the rest is registered is noted here.
fn note_which() -> std::io::Result<()> {
    let which = WHICH.get_or_init(Arc::default);
    for_each_signal(|signal| {
        signal_hook::flag::register_usize(signal, Arc::clone(which), signal.unsigned_abs() as usize).map(drop)
    })
}

/// Has it known that a signal came.
fn note_arrival() -> std::io::Result<()> {
    let arrived = ARRIVED.get_or_init(Arc::default);
    for_each_signal(|signal| signal_hook::flag::register(signal, Arc::clone(arrived)).map(drop))
}

fn noted() -> usize {
    // Relaxed: nothing is published with it; the handler runs on this thread or has run before anything it
    // caused.
    WHICH.get().map_or(0, |which| which.load(Ordering::Relaxed))
}

/// From now on the first signal only sets what [`has_arrived`] says: the command ends by itself, soon.
pub(crate) fn end_with_what_there_is() -> std::io::Result<()> {
    hold_if_interrupted();
    ENDS_EARLY.store(true, Ordering::Relaxed);
    if ARRIVED.get().is_some() {
        // There is a thread that waits for the second signal.
        return Ok(());
    }
    note_which()?;
    let arrived = ARRIVED.get_or_init(Arc::default);
    // Before the flag is set by the same signal: so it is the second one that ends the process at once.
    for_each_signal(|signal| {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(arrived)).map(drop)
    })?;
    note_arrival()
}

/// Whether a signal has come.
pub(crate) fn has_arrived() -> bool {
    noted() != 0
}

/// The status to end with, if a signal has come, or comes now: one for a whole group of processes reaches
/// this one after others, whose end this one may see before.
pub(crate) fn arrives_soon() -> Option<u8> {
    let looks = if ENDS_EARLY.load(Ordering::Relaxed) { ARRIVAL_LOOKS } else { 1 };
    (0..looks).find_map(|look| {
        if look > 0 {
            std::thread::sleep(ARRIVAL_PAUSE);
        }
        status()
    })
}

/// The status to end with, if a signal ended the measurement.
pub(crate) fn status() -> Option<u8> {
    let which = Some(noted()).filter(|which| *which != 0)?;
    u8::try_from(128 + which).ok()
}

/// Leaves a command that ends by itself its time, unless there is another signal.
fn wait_for_early_end(signals: &mut Signals) {
    let since = Instant::now();
    while ENDS_EARLY.load(Ordering::Relaxed) && since.elapsed() < EARLY_END_LIMIT {
        if signals.pending().next().is_some() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns only if no signal has come. What a command finds in a cluster that is being taken away is no
/// result.
pub(crate) fn hold_if_interrupted() {
    while has_arrived() && !ENDS_EARLY.load(Ordering::Relaxed) {
        HELD.store(true, Ordering::Relaxed);
        std::thread::park();
    }
}

fn take_away(dir: &ClusterDir) {
    let mut calm = 0;
    for _ in 0..ROUNDS {
        if namespaces::are_up(dir) {
            // What cannot be ended now ends with this process.
            drop(namespaces::down(dir));
        }
        OwnCluster::remove(dir);
        std::thread::sleep(PAUSE);
        calm = if dir.path().exists() || has_children() { 0 } else { calm + 1 };
        let needed = if HELD.load(Ordering::Relaxed) { CALM_ROUNDS } else { CALM_ROUNDS_WHILE_BUSY };
        if calm >= needed {
            break;
        }
    }
}

/// Whether a process that this one started still runs. Where the kernel does not say, the directory alone has
/// to do.
fn has_children() -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    threads.filter_map(Result::ok).any(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.split_whitespace().any(runs)
    })
}

/// Neither gone nor waiting to be asked for its end.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name is in parentheses and may hold anything, parentheses too.
    stat.rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next())
        .is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_ended_does_not_count() {
        assert!(!has_children());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(has_children());
        child.kill().unwrap();
        while has_children() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
