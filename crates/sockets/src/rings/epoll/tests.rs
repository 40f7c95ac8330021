//! What is noted against a model of the kernel: in every order, what the program is told and what the kernel
//! is asked about is as if each call had been made.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, c_int, epoll_event};

use super::interest::{Change, Interest, MANY};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Registrations of one number, by epoll.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
struct Kernel(BTreeMap<c_int, (u32, u64)>);

impl Kernel {
    fn call(&mut self, epoll: c_int, (what, event): Change) -> isize {
        let new = (event.events, event.u64);
        match (what, self.0.contains_key(&epoll)) {
            (EPOLL_CTL_ADD, true) => return -(libc::EEXIST as isize),
            (EPOLL_CTL_MOD | EPOLL_CTL_DEL, false) => return -(libc::ENOENT as isize),
            (EPOLL_CTL_DEL, true) => drop(self.0.remove(&epoll)),
            _ => drop(self.0.insert(epoll, new)),
        }
        0
    }
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

fn event(events: c_int, data: u64) -> epoll_event {
    epoll_event { events: events as u32, u64: data }
}

/// A program, what it would have without notes, and what there is.
struct Trial {
    interest: Interest,
    kernel: RefCell<Kernel>,
    /// Calls that the library made.
    made: Cell<u32>,
    model: Kernel,
    /// Calls that the program made.
    asked: u32,
}

impl Trial {
    fn new() -> Self {
        let kernel = RefCell::new(Kernel::default());
        Self { interest: Interest::new(), kernel, made: Cell::new(0), model: Kernel::default(), asked: 0 }
    }

    fn made_up(&self) -> impl Fn(c_int, Change) -> isize {
        |epoll, change| {
            self.made.set(self.made.get() + 1);
            self.kernel.borrow_mut().call(epoll, change)
        }
    }

    fn makes_up(&self) {
        let mut masked = None;
        self.interest.makes_up(&mut masked, self.made_up());
        if let Some(masked) = masked {
            masked.end();
        }
    }

    /// A call of the program, which may be noted.
    fn controls(&mut self, epoll: c_int, change: Change, may_be_noted: bool) {
        let (what, event) = change;
        let expected = self.model.call(epoll, change);
        self.asked += 1;
        if may_be_noted && self.interest.notes(epoll as u32 + 1, what, event) {
            assert_eq!(expected, 0, "a call that fails was noted: {what}");
            return;
        }
        assert!(self.interest.begins(self.made_up()));
        self.made.set(self.made.get() + 1);
        let result = self.kernel.borrow_mut().call(epoll, change);
        self.interest.ends((result == 0).then_some((epoll as u32 + 1, what, event)));
        assert_eq!(result, expected, "of {what}");
    }

    /// What the library looks at rings for, in an epoll.
    fn looked_for(&self, epoll: c_int) -> Option<(u32, u64)> {
        let now = self.interest.now();
        now.is_in(epoll as u32 + 1).then_some((now.events, now.data))
    }

    fn agrees(&self) {
        let now = self.interest.now();
        if now.epoll == MANY {
            assert!(!now.is_noted);
            return;
        }
        for epoll in [3, 4] {
            assert_eq!(self.looked_for(epoll), self.model.0.get(&epoll).copied(), "in {epoll}");
        }
        if !now.is_noted {
            assert_eq!(*self.kernel.borrow(), self.model);
        }
    }
}

#[test]
fn what_is_noted_is_as_good_as_made() {
    const EVENTS: [c_int; 8] = [
        libc::EPOLLIN,
        libc::EPOLLOUT,
        libc::EPOLLIN | libc::EPOLLOUT,
        0,
        libc::EPOLLIN | libc::EPOLLRDHUP,
        libc::EPOLLIN | libc::EPOLLET,
        libc::EPOLLIN | libc::EPOLLONESHOT,
        libc::EPOLLOUT | libc::EPOLLPRI,
    ];
    let mut noted = 0;
    for seed in 1..400 {
        let mut random = Random(seed * 0x9e37_79b9_7f4a_7c15);
        let mut trial = Trial::new();
        // Some have one epoll and levels alone, where all that can be is noted.
        let (epolls, kinds) = if seed % 2 == 0 { (1, 5) } else { (2, EVENTS.len() as u64) };
        for _ in 0..200 {
            match random.below(12) {
                0 => {
                    trial.makes_up();
                    assert_eq!(*trial.kernel.borrow(), trial.model, "after all was made up");
                    assert!(!trial.interest.glance().is_noted);
                }
                1 if random.below(4) == 0 => {
                    // Another holder may have the connection: the kernel keeps what it was registered for. It
                    // is the number's no more.
                    trial.makes_up();
                    assert_eq!(*trial.kernel.borrow(), trial.model, "before a close");
                    trial.interest.forgets();
                    trial.model = Kernel::default();
                    trial.kernel.replace(Kernel::default());
                }
                2 if random.below(4) == 0 => {
                    // One of the epolls is closed, and with it what was noted.
                    let epoll = 3 + random.below(epolls) as c_int;
                    trial.interest.loses(epoll as u32 + 1, true);
                    trial.model.0.remove(&epoll);
                    trial.kernel.borrow_mut().0.remove(&epoll);
                }
                _ => {
                    let what = [EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL][random.below(3) as usize];
                    let of = event(EVENTS[random.below(kinds) as usize], random.below(3));
                    let epoll = 3 + random.below(epolls) as c_int;
                    let may_be_noted = random.below(4) != 0;
                    trial.controls(epoll, (what, of), may_be_noted);
                }
            }
            trial.agrees();
        }
        assert!(trial.made.get() <= trial.asked, "more calls were made than the program asked for");
        noted += trial.asked - trial.made.get();
    }
    assert!(noted > 1000, "next to nothing was noted: {noted}");
}

#[test]
fn a_change_there_and_back_takes_no_call() {
    let mut trial = Trial::new();
    trial.controls(3, (EPOLL_CTL_ADD, event(libc::EPOLLIN, 1)), true);
    for _ in 0..10 {
        trial.controls(3, (EPOLL_CTL_DEL, event(0, 0)), true);
        trial.controls(3, (EPOLL_CTL_ADD, event(libc::EPOLLOUT, 1)), true);
        trial.controls(3, (EPOLL_CTL_MOD, event(libc::EPOLLIN, 1)), true);
    }
    trial.makes_up();
    assert_eq!(trial.made.get(), 1);
    trial.agrees();
}

#[test]
fn two_calls_at_a_time_are_the_kernels_to_put_in_order() {
    let kernel = RefCell::new(Kernel::default());
    let call = |epoll, change| kernel.borrow_mut().call(epoll, change);
    let interest = Interest::new();
    assert!(interest.begins(call) && interest.begins(call));
    assert!(!interest.notes(4, EPOLL_CTL_DEL, event(0, 0)), "beside a call");
    interest.ends(Some((4, EPOLL_CTL_ADD, event(libc::EPOLLIN, 1))));
    interest.ends(Some((4, EPOLL_CTL_MOD, event(libc::EPOLLOUT, 1))));
    assert_eq!(interest.now().epoll, MANY);
    assert!(!interest.notes(4, EPOLL_CTL_DEL, event(0, 0)), "of what nobody knows");
}

#[test]
fn of_a_number_that_is_closed_in_a_call_nothing_is_kept() {
    let interest = Interest::new();
    assert!(interest.begins(|_, _| 0));
    interest.forgets();
    assert_eq!(interest.ends(Some((4, EPOLL_CTL_ADD, event(libc::EPOLLIN, 1)))), None);
    assert_eq!(interest.now().epoll, 0);
}

#[test]
fn in_a_child_nobody_is_in_a_call() {
    let mut trial = Trial::new();
    trial.controls(3, (EPOLL_CTL_ADD, event(libc::EPOLLIN, 1)), true);
    trial.controls(3, (EPOLL_CTL_DEL, event(0, 0)), true);
    assert!(trial.interest.forked(), "what is noted is to be made up");
    trial.makes_up();
    assert_eq!(*trial.kernel.borrow(), trial.model);
    // The parent makes up for the same: what the child has deleted is not there.
    let parent = Trial::new();
    assert!(parent.interest.begins(|_, _| 0));
    parent.interest.ends(Some((4, EPOLL_CTL_ADD, event(libc::EPOLLIN, 1))));
    assert!(parent.interest.notes(4, EPOLL_CTL_MOD, event(libc::EPOLLOUT, 2)));
    parent.makes_up();
    assert_eq!(parent.kernel.borrow().0.get(&3), Some(&(libc::EPOLLOUT as u32, 2)));
    let child = Interest::new();
    assert!(child.begins(|_, _| 0) && !child.forked());
    assert!(child.begins(|_, _| 0));
    child.ends(Some((4, EPOLL_CTL_ADD, event(libc::EPOLLIN, 1))));
    assert_eq!(child.now().epoll, 4, "the call of the parent does not count");
}

/// One thread notes changes, and another asks the kernel: what was noted when it began to ask it has.
#[test]
fn who_asks_the_kernel_finds_all_that_was_noted_before() {
    const CHANGES: u64 = 30_000;
    struct Shared {
        interest: Interest,
        kernels: AtomicU64,
        asking: AtomicU32,
        returned: AtomicU64,
    }
    let shared = Arc::new(Shared {
        interest: Interest::new(),
        kernels: AtomicU64::new(0),
        asking: AtomicU32::new(0),
        returned: AtomicU64::new(0),
    });
    fn makes_up(shared: &Shared) {
        let mut masked = None;
        shared.interest.makes_up(&mut masked, |_, (_, event)| {
            shared.kernels.store(event.u64, Ordering::SeqCst);
            0
        });
        if let Some(masked) = masked {
            masked.end();
        }
    }
    assert!(shared.interest.begins(|_, _| 0));
    shared.interest.ends(Some((4, EPOLL_CTL_ADD, event(libc::EPOLLIN, 0))));
    let noting = Arc::clone(&shared);
    let notes = thread::spawn(move || {
        for change in 1..=CHANGES {
            while !noting.interest.notes(4, EPOLL_CTL_MOD, event(libc::EPOLLIN, change)) {
                // The other thread is making up.
                thread::yield_now();
            }
            if noting.asking.load(Ordering::SeqCst) != 0 {
                makes_up(&noting);
            }
            noting.returned.store(change, Ordering::SeqCst);
        }
    });
    // At least once, also where the other thread has been through before this one got a processor.
    loop {
        shared.asking.fetch_add(1, Ordering::SeqCst);
        makes_up(&shared);
        let returned = shared.returned.load(Ordering::SeqCst);
        let found = shared.kernels.load(Ordering::SeqCst);
        assert!(found >= returned, "the kernel has {found}, and {returned} was noted before");
        shared.asking.fetch_sub(1, Ordering::SeqCst);
        if returned == CHANGES {
            break;
        }
    }
    notes.join().unwrap();
}
