//! Bare wake-ups with a futex and an eventfd, both ends asleep.

use std::{
    fs::File,
    io::{Read, Write},
    sync::Arc,
};

use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno,
    thread::futex,
};
use shm::{
    layout::CacheLine,
    sync::{AtomicU32, Ordering},
};

use super::{Link, Pair};
use crate::{
    error::{BenchError, Result},
    poll::{ANSWER_TIMEOUT, no_answer},
};

const FUTEX: &str = "futex";

/// A word for each direction.
#[derive(Debug)]
pub struct Futexes {
    out: Arc<CacheLine<AtomicU32>>,
    input: Arc<CacheLine<AtomicU32>>,
}

impl Link for Futexes {
    fn send(&self, number: u64) -> Result<()> {
        // Release: pairs with the Acquire of the receiver.
        self.out.0.store(number as u32, Ordering::Release);
        futex::wake(&self.out.0, futex::Flags::empty(), 1).map(drop).map_err(futex_error)
    }

    fn receive(&self, number: u64) -> Result<()> {
        loop {
            // Acquire: pairs with the Release of the sender.
            let seen = self.input.0.load(Ordering::Acquire);
            if seen == number as u32 {
                return Ok(());
            }
            let timeout = rustix::time::Timespec { tv_sec: ANSWER_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
            match futex::wait(&self.input.0, futex::Flags::empty(), seen, Some(&timeout)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => return Err(no_answer(FUTEX)),
                Err(errno) => return Err(futex_error(errno)),
            }
        }
    }
}

fn futex_error(errno: Errno) -> BenchError {
    BenchError::Io { what: FUTEX.to_owned(), source: errno.into() }
}

/// A store and FUTEX_WAKE each way.
pub fn futex() -> Pair<Futexes> {
    let [there, back]: [Arc<CacheLine<AtomicU32>>; 2] = Default::default();
    let near = Futexes { out: Arc::clone(&there), input: Arc::clone(&back) };
    Pair::new(FUTEX, near, Futexes { out: back, input: there })
}

/// An eventfd for each direction.
#[derive(Debug)]
pub struct EventFds {
    out: Arc<File>,
    input: Arc<File>,
}

impl Link for EventFds {
    fn send(&self, _number: u64) -> Result<()> {
        (&*self.out).write_all(&1u64.to_ne_bytes()).map_err(BenchError::io("writing to an eventfd"))
    }

    fn receive(&self, _number: u64) -> Result<()> {
        let mut count = [0; 8];
        (&*self.input).read_exact(&mut count).map_err(BenchError::io("reading from an eventfd"))
    }
}

/// An eventfd each way, blocking.
pub fn event_fd() -> Result<Pair<EventFds>> {
    let make = || {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).map_err(std::io::Error::from);
        fd.map(|fd| Arc::new(File::from(fd))).map_err(BenchError::io("making an eventfd"))
    };
    let (there, back) = (make()?, make()?);
    let near = EventFds { out: Arc::clone(&there), input: Arc::clone(&back) };
    Ok(Pair::new("eventfd", near, EventFds { out: back, input: there }))
}
