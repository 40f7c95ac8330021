//! Triggers and messages of several threads that go on until the test says so, and their receivers.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use shm::sync::{AtomicBool, Ordering};
use tieline::{DataInterrupt, Error, Interrupt, ReducedRail, RemoteDataInterrupt, RemoteInterrupt};

/// Between two triggers of a thread.
const PAUSE: Duration = Duration::from_micros(200);
/// Bytes of a message: the number of its thread, and its place in that thread's order.
const MESSAGE_BYTES: usize = 16;

/// Threads that do something again and again.
#[derive(Default)]
pub(super) struct Series {
    is_over: Arc<AtomicBool>,
    /// How often each thread has done it in earlier series: its numbers go on.
    before: Vec<u64>,
    threads: Vec<JoinHandle<Result<u64>>>,
}

impl Series {
    /// Each calls `act` with its number and how often it was done by it.
    fn begin(&mut self, threads: u64, act: impl Fn(u64, u64) -> Result<bool> + Send + Sync + 'static) {
        self.is_over.store(false, Ordering::SeqCst);
        let act = Arc::new(act);
        self.before.resize(self.before.len().max(threads as usize), 0);
        for thread in 0..threads {
            let before = self.before[thread as usize];
            let (act, is_over) = (Arc::clone(&act), Arc::clone(&self.is_over));
            self.threads.push(std::thread::spawn(move || {
                let mut done = 0;
                // At least once, however soon the series is over.
                loop {
                    done += u64::from(act(thread, before + done)?);
                    if is_over.load(Ordering::SeqCst) {
                        return Ok(done);
                    }
                    std::thread::sleep(PAUSE);
                }
            }));
        }
    }

    /// How often it was done by all of them.
    fn end(&mut self) -> Result<u64> {
        self.is_over.store(true, Ordering::SeqCst);
        let ended = self.threads.drain(..).map(|thread| thread.join().ok().context("a thread panicked")?);
        // All have ended before the first error is told.
        let ended: Vec<_> = ended.collect();
        let ended = ended.into_iter().collect::<Result<Vec<u64>>>()?;
        for (before, done) in self.before.iter_mut().zip(&ended) {
            *before += done;
        }
        Ok(ended.into_iter().sum())
    }
}

fn rails(reduced: &[ReducedRail]) -> String {
    let reduced: Vec<_> = reduced.iter().map(|rail| format!("rail {}: {}", rail.number, rail.why)).collect();
    if reduced.is_empty() { "all".to_owned() } else { reduced.join(", ") }
}

/// Orders to who triggers: `now`, `begin THREADS`, `end`, `rails`.
pub(super) fn trigger(
    interrupt: &Arc<RemoteInterrupt>,
    series: &mut Series,
    words: &[&str],
) -> Result<String> {
    match words {
        ["begin", threads] => {
            let interrupt = Arc::clone(interrupt);
            series.begin(threads.parse()?, move |_, _| Ok(interrupt.trigger().map(|()| true)?));
            Ok("begun".to_owned())
        }
        ["end"] => Ok(format!("made {}", series.end()?)),
        ["rails"] => Ok(rails(&interrupt.reduced_rails())),
        _ => Ok(interrupt.trigger().map(|()| "done".to_owned())?),
    }
}

/// Orders to the receiver: `sum` says how many have come since the start; anything else waits for the next.
pub(super) fn count(
    interrupt: &Interrupt,
    sum: &mut u64,
    timeout: Duration,
    words: &[&str],
) -> Result<String> {
    if words == ["sum"] {
        *sum += u64::from(interrupt.take()?);
        return Ok(format!("sum {sum}"));
    }
    let came = interrupt.wait(Some(timeout))?;
    *sum += u64::from(came);
    Ok(format!("came {came}"))
}

/// The same to who sends messages: `begin THREADS`, `end`, `rails`. A receiver that is full is waited for.
pub(super) fn send(
    interrupt: &Arc<RemoteDataInterrupt>,
    series: &mut Series,
    words: &[&str],
) -> Result<String> {
    match words {
        ["begin", threads] => {
            let interrupt = Arc::clone(interrupt);
            series.begin(threads.parse()?, move |thread, nth| {
                let message = [thread.to_le_bytes(), nth.to_le_bytes()].concat();
                match interrupt.trigger(&message) {
                    Ok(()) => Ok(true),
                    Err(Error::Full { .. }) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            });
            Ok("begun".to_owned())
        }
        ["end"] => Ok(format!("made {}", series.end()?)),
        ["rails"] => Ok(rails(&interrupt.reduced_rails())),
        other => bail!("unknown order {other:?}"),
    }
}

/// What has come of messages, each after the one before it of its thread.
#[derive(Debug, Default)]
struct Came {
    of_threads: [u64; 8],
    fault: Option<String>,
}

/// Takes all messages as they come, until the program ends.
pub(super) struct Taker {
    came: Arc<Mutex<Came>>,
}

impl Taker {
    pub(super) fn start(interrupt: DataInterrupt) -> Self {
        let came: Arc<Mutex<Came>> = Arc::default();
        let into = Arc::clone(&came);
        std::thread::spawn(move || {
            let mut buffer = [0; MESSAGE_BYTES];
            loop {
                let taken = interrupt.wait(&mut buffer, None);
                let mut came = into.lock().unwrap_or_else(PoisonError::into_inner);
                let word = |nth: usize| u64::from_le_bytes(std::array::from_fn(|at| buffer[8 * nth + at]));
                let (thread, nth) = (word(0) as usize, word(1));
                let fault = match (taken, came.of_threads.get_mut(thread)) {
                    (Ok(MESSAGE_BYTES), Some(next)) if *next == nth => {
                        *next += 1;
                        continue;
                    }
                    (Ok(_), next) => format!("message {nth} of thread {thread}, and not {next:?}"),
                    (Err(error), _) => error.to_string(),
                };
                came.fault = Some(fault);
                return;
            }
        });
        Self { came }
    }

    /// `sum` says how many have come, if they came in their order and none twice.
    pub(super) fn obey(&self) -> Result<String> {
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = &came.fault {
            bail!("{fault}");
        }
        Ok(format!("sum {}", came.of_threads.iter().sum::<u64>()))
    }
}
