//! A descriptor that becomes readable when a queue, a counter or a wait set may have something: for programs
//! that wait for several things at once in a call of the kernel.
//!
//! Peers do not know of it. So a thread sleeps in place of the program, on the words that peers and this
//! process's threads change, and writes to the descriptor when it is woken; it touches nothing else. It
//! sleeps once for each time that the program says that it is about to wait (`fi_trywait`), and not for long:
//! a peer may miss who goes to sleep in that very moment. So the program is woken in vain now and then, and
//! never later than after such a sleep.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use message_queue::{Alarm, Armed};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read, write};
use shm::doorbell::Sleep;
use shm::process::SignalsBlocked;

use super::wait::{self, Bell, Member};

/// Stack of the thread, which calls little.
const STACK_BYTES: usize = 64 << 10;
/// How long the thread sleeps at first, and at most after it has been woken in vain again and again.
const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(64);

/// What the thread is to do next.
#[derive(Debug, Default)]
enum Job {
    #[default]
    None,
    Sleep(Alarm, Duration),
    Stop,
}

#[derive(Debug, Default)]
struct Board {
    job: Mutex<Job>,
    is_there: Condvar,
}

impl Board {
    fn job(&self) -> MutexGuard<'_, Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, job: Job) {
        *self.job() = job;
        self.is_there.notify_one();
    }
}

/// The descriptor, and the thread that writes to it.
#[derive(Debug)]
pub(crate) struct Notifier {
    event: Arc<OwnedFd>,
    board: Arc<Board>,
    /// Wakes the thread when it is to end.
    bell: Bell,
    /// How long the next sleep is.
    limit: Mutex<Duration>,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    /// A new one.
    pub(crate) fn new() -> Result<Self, Errno> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let board = Arc::new(Board::default());
        let (of_thread, written) = (Arc::clone(&board), Arc::clone(&event));
        let signals = SignalsBlocked::here();
        let thread = std::thread::Builder::new()
            .name("tieline-wait".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&of_thread, &written))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        drop(signals);
        let (bell, limit) = (Bell::default(), Mutex::new(FIRST));
        Ok(Self { event, board, bell, limit, thread: Some(thread) })
    }

    /// The descriptor, which stays this one's.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// The program is about to wait for the descriptor: whether it may, as nothing of the members is there
    /// after a turn of progress for which the descriptor would not become readable.
    pub(crate) fn try_wait(&self, members: &[Member]) -> bool {
        // What is written behind this is for this wait, or in vain.
        let _ = read(&*self.event, &mut [0_u8; 8]);
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        if members.iter().any(Member::take_news) {
            *limit = FIRST;
            return false;
        }
        members.iter().for_each(|member| member.domain.lock().watch(member.awaited));
        let mut alarm = Alarm::default();
        self.bell.join(&mut alarm);
        let length = match wait::fall_asleep(members, &mut alarm, &Sleep::new(), true) {
            Armed::Asleep => {
                let length = *limit;
                *limit = (length * 2).min(LONGEST);
                length
            }
            // Where nobody wakes, it is looked again soon.
            Armed::Restless => FIRST,
            Armed::Awake => {
                *limit = FIRST;
                return false;
            }
        };
        self.board.put(Job::Sleep(alarm, length));
        true
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.board.put(Job::Stop);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(board: &Board, event: &OwnedFd) {
    let mut job = board.job();
    loop {
        match std::mem::take(&mut *job) {
            Job::None => job = board.is_there.wait(job).unwrap_or_else(PoisonError::into_inner),
            Job::Stop => return,
            Job::Sleep(alarm, limit) => {
                drop(job);
                if !alarm.sleep(limit) {
                    // It cannot wait for so many peers at once.
                    std::thread::sleep(FIRST.min(limit));
                }
                // It only fails if nobody has read for so long that it is readable anyway.
                let _ = write(event, &1_u64.to_ne_bytes());
                job = board.job();
            }
        }
    }
}
