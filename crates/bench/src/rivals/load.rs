//! Competing load: threads that do nothing but use up processor time, for as long as they are
//! wanted.

use std::{sync::Arc, thread::JoinHandle};

use shm::sync::{AtomicBool, Ordering};

use crate::error::{BenchError, Result};

/// Threads a processor at most: more would only make the machine unusable.
const THREADS_A_CPU_MAX: usize = 4;

/// The load in the head of a report; empty without load.
pub(crate) fn described(threads: usize) -> String {
    match threads {
        0 => String::new(),
        1 => ", 1 thread of competing load".to_owned(),
        n => format!(", {n} threads of competing load"),
    }
}

/// Stops and waits for its threads when dropped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Load {
    /// Refuses more threads than are of use.
    pub fn check(threads: usize) -> Result<()> {
        let most = THREADS_A_CPU_MAX * crate::cpus::allowed()?.len();
        if threads > most {
            return Err(BenchError::Usage(format!(
                "--load {threads}: give at most {most}, {THREADS_A_CPU_MAX} for each processor that this process may use"
            )));
        }
        Ok(())
    }

    /// Starts this number of threads, on the processors that the scheduler chooses.
    pub fn start(threads: usize) -> Result<Self> {
        Self::check(threads)?;
        let mut load = Self { stop: Arc::default(), threads: Vec::new() };
        for _ in 0..threads {
            let stop = Arc::clone(&load.stop);
            let thread = std::thread::Builder::new().name("bench-load".to_owned()).spawn(move || {
                let mut turns = 0u64;
                // Relaxed: nothing is published by it.
                while !stop.load(Ordering::Relaxed) {
                    turns = std::hint::black_box(turns.wrapping_add(1));
                }
                turns
            });
            load.threads.push(thread.map_err(BenchError::io("starting a load thread"))?);
        }
        Ok(load)
    }

    /// How many threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only counts cannot panic.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_and_stopped() {
        let load = Load::start(2).unwrap();
        assert_eq!(load.threads(), 2);
        let stop = Arc::clone(&load.stop);
        drop(load);
        assert!(stop.load(Ordering::Relaxed));
        // The threads have dropped their handles.
        assert_eq!(Arc::strong_count(&stop), 1);
        assert_eq!(Load::start(0).unwrap().threads(), 0);
    }

    #[test]
    fn bounded() {
        let error = Load::start(1_000_000).unwrap_err().to_string();
        assert!(error.contains("1000000") && error.contains("at most"), "{error}");
    }
}
