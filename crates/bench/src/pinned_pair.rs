//! Two pinned threads, near and far, that run one operation together at a time.
//!
//! The threads live as long as the benchmark; between two operations the far one sleeps. Within an
//! operation they wait by spinning, with a watchdog ([`crate::poll`]): if the other side dies, or
//! shares the processor after all, the result is an error, not a hang.

use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use shm::sync::{AtomicBool, Ordering};

use crate::{
    error::{BenchError, Result},
    poll::{self, no_answer},
};

type Job<'env> = Box<dyn FnOnce() + Send + 'env>;

/// The near side's handle on the far thread.
pub struct PinnedPair<'env> {
    jobs: Sender<Job<'env>>,
    /// The near side has ended early: it does not send what the far thread waits for.
    given_up: Arc<AtomicBool>,
    /// Processors of the near and the far thread.
    pub cpus: [usize; 2],
}

impl std::fmt::Debug for PinnedPair<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedPair").field("cpus", &self.cpus).finish_non_exhaustive()
    }
}

/// Runs `near` on a thread pinned to the first processor, with a far thread pinned to the second at
/// its disposal. The caller's own thread stays where it is.
pub fn on<'env, R: Send>(
    cpus: [usize; 2],
    near: impl FnOnce(&mut PinnedPair<'env>) -> Result<R> + Send + 'env,
) -> Result<R> {
    thread::scope(|scope| {
        let (jobs, queue) = mpsc::channel::<Job<'env>>();
        let (pinned, far_pinned) = mpsc::channel();
        let given_up = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&given_up);
        let far = spawn(scope, "bench-far", move || far_loop(cpus[1], &pinned, &queue, told))?;
        let near = spawn(scope, "bench-near", move || -> Result<R> {
            shm::cpu::pin_current_thread(cpus[0])?;
            far_pinned.recv().map_err(|_| ended("start"))??;
            if cpus[0] == cpus[1] {
                poll::share_processor();
            }
            near(&mut PinnedPair { jobs, given_up, cpus })
        })?;
        let result = near.join().map_err(|_| ended("the near side"));
        // The near side has dropped its sender: the far loop ends.
        let far = far.join().map_err(|_| ended("the far side"));
        let result = result?;
        far.and(result)
    })
}

/// Runs `body` on a thread of its own that is pinned to one processor.
pub fn pinned<R: Send>(cpu: usize, body: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    thread::scope(|scope| {
        let thread = spawn(scope, "bench", move || {
            shm::cpu::pin_current_thread(cpu)?;
            body()
        })?;
        thread.join().map_err(|_| ended("the benchmark"))?
    })
}

fn spawn<'scope, R: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &'static str,
    body: impl FnOnce() -> R + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, R>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, body)
        .map_err(BenchError::io("starting a thread"))
}

fn far_loop(cpu: usize, pinned: &Sender<Result<()>>, queue: &Receiver<Job<'_>>, given_up: Arc<AtomicBool>) {
    // Relaxed: nothing is published with it.
    let _watched = poll::watched(move |_| match given_up.load(Ordering::Relaxed) {
        true => Err(BenchError::Stopped { what: "the far side" }),
        false => Ok(()),
    });
    // If the near side is gone, the result is not needed.
    let _ = pinned.send(shm::cpu::pin_current_thread(cpu).map_err(Into::into));
    while let Ok(job) = queue.recv() {
        job();
    }
}

fn ended(what: &'static str) -> BenchError {
    BenchError::OtherEnd { what, reason: "its thread panicked".to_owned() }
}

impl<'env> PinnedPair<'env> {
    /// Runs `near` here and `far` on the far thread, at the same time as far as possible (a side
    /// that needs the other must wait for it by itself), and returns both results. An error of the
    /// far side has priority: it is the cause.
    pub fn both<N, F: Send + 'env>(
        &mut self,
        what: &'static str,
        near: impl FnOnce() -> Result<N>,
        far: impl FnOnce() -> Result<F> + Send + 'env,
    ) -> Result<(N, F)> {
        let (tell, told) = mpsc::sync_channel(1);
        let job: Job<'env> = Box::new(move || {
            // The near side may have ended early.
            let _ = tell.send(far());
        });
        self.jobs.send(job).map_err(|_| ended(what))?;
        let near = near();
        // It would wait until its timeout.
        self.given_up.store(near.is_err(), Ordering::Relaxed);
        // The far side watches its own waits, so this ends.
        let far = told.recv().map_err(|_| ended(what));
        self.given_up.store(false, Ordering::Relaxed);
        match (near, far?) {
            (Ok(near), Ok(far)) => Ok((near, far)),
            // It was stopped from here, where the cause is.
            (Err(error), Err(BenchError::Stopped { .. })) => Err(error),
            (_, Err(BenchError::NoAnswer { .. })) | (Err(BenchError::NoAnswer { .. }), Ok(_)) => {
                Err(no_answer(what))
            }
            (_, Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use shm::sync::{AtomicU64, Ordering};

    use super::*;
    use crate::poll::Poll;

    fn two() -> Option<[usize; 2]> {
        crate::cpus::pair(None, "test").ok()
    }

    #[test]
    fn both_sides_answer_and_may_borrow() {
        let Some(cpus) = two() else { return };
        let word = AtomicU64::new(0);
        let sum = on(cpus, |pair| {
            let mut sum = 0;
            for round in 0..3u64 {
                let near = || {
                    word.store(2 * round + 1, Ordering::Release);
                    Poll::Paused.word("test", &word, 2 * round + 2)
                };
                let word = &word;
                let far = move || {
                    Poll::Paused.word("test", word, 2 * round + 1)?;
                    word.store(2 * round + 2, Ordering::Release);
                    Ok((round, shm::cpu::current_cpu()))
                };
                let (_, (said, cpu)) = pair.both("test", near, far)?;
                assert_eq!((said, cpu), (round, cpus[1]));
                sum += said;
            }
            Ok(sum)
        });
        assert_eq!(sum.unwrap(), 3);
    }

    #[test]
    fn an_error_of_the_far_side_wins() {
        let Some(cpus) = two() else { return };
        let result: Result<()> = on(cpus, |pair| {
            let far = || -> Result<()> { Err(BenchError::Usage("far".into())) };
            pair.both("test", || -> Result<()> { Err(BenchError::Usage("near".into())) }, far)?;
            Ok(())
        });
        assert!(matches!(result, Err(BenchError::Usage(text)) if text == "far"));
    }

    #[test]
    fn a_far_side_that_waits_in_vain_ends_with_the_near_one() {
        let Some(cpus) = two() else { return };
        let word = AtomicU64::new(0);
        let result: Result<()> = on(cpus, |pair| {
            let word = &word;
            let near = || -> Result<()> { Err(BenchError::Usage("near".into())) };
            pair.both("test", near, move || Poll::Paused.word("test", word, 1)).map(drop)
        });
        // If it waited until its time-out, it would report that no reply arrived.
        assert!(matches!(&result, Err(BenchError::Usage(text)) if text == "near"), "{result:?}");
    }

    #[test]
    fn a_processor_that_is_not_there_is_an_error() {
        let Some([near, _]) = two() else { return };
        let result: Result<()> = on([near, 9_999_999], |_| Ok(()));
        assert!(matches!(result, Err(BenchError::Memory(_))), "{result:?}");
    }
}
