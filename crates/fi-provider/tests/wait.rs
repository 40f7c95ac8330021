//! Waits for completions and counters, and what ends them: see `program`.
#![allow(clippy::unwrap_used)]

mod program;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric_sys::abi::*;
use fabric_sys::constants::*;
use program::{Counter, Entry, Program, Shared, Waits, counter, send};

const FOREVER: i32 = -1;

/// `fi_cq_sread`: one completion, or a negative number.
fn sread(cq: *mut fid_cq, timeout: i32) -> Result<Entry, isize> {
    type Sread = unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *const c_void, i32) -> isize;
    let mut entry = Entry { context: 0, flags: 0, len: 0, buffer: 0, data: 0, tag: 0 };
    // SAFETY: the table is the provider's, and the member has this type; room for one entry.
    let got = unsafe {
        let call: Sread = std::mem::transmute((*(*cq).ops).sread);
        call(cq, (&raw mut entry).cast(), 1, std::ptr::null(), timeout)
    };
    if got == 1 { Ok(entry) } else { Err(got) }
}

fn signal(cq: *mut fid_cq) {
    type Signal = unsafe extern "C" fn(*mut fid_cq) -> i32;
    // SAFETY: the table is the provider's, and the member has this type.
    unsafe {
        let call: Signal = std::mem::transmute((*(*cq).ops).signal);
        assert_eq!(call(cq), 0);
    }
}

/// Two threads send each other messages in turn, and do nothing else than to wait: nobody would go on whom
/// nobody wakes.
#[test]
fn two_who_wait_for_each_other_all_the_time_go_on() {
    const ROUNDS: usize = 300;
    let programs = Program::several::<2>().map(Shared);
    let play = |me: usize| {
        let program = programs[me].get();
        let mut buffer = [0; 8];
        for round in 0..ROUNDS {
            // Now and then so late that the other one sleeps.
            if round % 50 == me {
                std::thread::sleep(Duration::from_millis(10));
            }
            program.receive(FI_ADDR_UNSPEC, 3, 0, &mut buffer, 7);
            let to_send = || program.try_send(1 - me as u64, 3, &round.to_ne_bytes(), 8);
            while to_send() == -(FI_EAGAIN as isize) {}
            let mut ends = [sread(program.cq, FOREVER).unwrap(), sread(program.cq, FOREVER).unwrap()];
            ends.sort_by_key(|end| end.context);
            assert_eq!([ends[0].context, ends[1].context], [7, 8]);
            assert_eq!(buffer, round.to_ne_bytes());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(0));
        play(1);
    });
}

#[test]
fn a_wait_ends_at_its_limit_and_not_before() {
    let program = Program::new();
    for limit in [0, 1, 30] {
        let began = Instant::now();
        assert_eq!(sread(program.cq, limit).err(), Some(-(FI_EAGAIN as isize)));
        assert!(began.elapsed() >= Duration::from_millis(limit as u64));
    }
    let counter = counter(&program);
    let began = Instant::now();
    assert_eq!(counter.wait(1, 20), -FI_ETIMEDOUT);
    assert!(began.elapsed() >= Duration::from_millis(20));
    assert_eq!(counter.wait(0, FOREVER), 0);
}

#[test]
fn a_signal_ends_a_wait_that_lasts_or_else_the_next() {
    let program = Shared(Program::new());
    for waits_before in [false, true] {
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if !waits_before {
                signal(program.get().cq);
            }
            let (program, has_ended) = (&program, &has_ended);
            let waits = scope.spawn(move || {
                let got = sread(program.get().cq, FOREVER).err();
                has_ended.store(true, Ordering::SeqCst);
                got
            });
            if waits_before {
                std::thread::sleep(Duration::from_millis(30));
                assert!(!has_ended.load(Ordering::SeqCst));
                signal(program.get().cq);
            }
            assert_eq!(waits.join().unwrap(), Some(-(FI_EAGAIN as isize)));
        });
    }
}

#[test]
fn what_another_thread_does_ends_a_wait() {
    let programs = Program::several::<1>().map(Shared);
    let (mut buffer, counter) = ([0; 8], Shared(counter(programs[0].get())));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| sread(programs[0].get().cq, FOREVER).unwrap().context);
        let counts = scope.spawn(|| counter.get().wait(5, FOREVER));
        let fails = scope.spawn(|| counter.get().wait(6, FOREVER));
        std::thread::sleep(Duration::from_millis(30));
        // No peer wakes for a message to itself.
        let program = programs[0].get();
        program.receive(FI_ADDR_UNSPEC, 3, 0, &mut buffer, 7);
        assert_eq!(program.try_send(0, 3, b"to self!", 7), 0);
        assert_eq!(waits.join().unwrap(), 7);
        counter.get().add(5);
        assert_eq!(counts.join().unwrap(), 0);
        counter.get().add_error(1);
        assert_eq!(fails.join().unwrap(), -FI_EAVAIL);
    });
    drop(counter);
}

fn trywait(program: &Program) -> i32 {
    program::trywait(program, program.cq.cast())
}

fn descriptor(program: &Program) -> Result<i32, i32> {
    program::descriptor(program.cq.cast())
}

#[test]
fn a_descriptor_becomes_readable_when_something_comes() {
    let mut programs = [Program::new(), Program::waiting(Waits::FD)];
    Program::make_known(&programs);
    let fd = descriptor(&programs[1]).unwrap();
    assert_eq!(descriptor(&programs[0]), Err(-FI_ENOSYS));
    assert_eq!(trywait(&programs[0]), -FI_EINVAL);
    let mut buffer = [0; 8];
    for round in 0..30_usize {
        programs[1].receive(0, 3, 0, &mut buffer, round);
        let is_late = round % 3 == 0;
        if !is_late {
            send(&mut programs, 0, 1, 3, &round.to_ne_bytes(), 0);
        }
        let (mut waits, until) = (0, Instant::now() + Duration::from_secs(60));
        while programs[1].good.is_empty() {
            assert!(Instant::now() < until, "nothing comes");
            match trywait(&programs[1]) {
                0 => {
                    waits += 1;
                    if is_late && waits == 3 {
                        let bytes = round.to_ne_bytes();
                        while programs[0].try_send(1, 3, &bytes, 0) == -(FI_EAGAIN as isize) {
                            programs[0].progress();
                        }
                    }
                    program::wait_readable(fd);
                }
                again => assert_eq!(again, -FI_EAGAIN),
            }
            programs[1].progress();
        }
        assert_eq!(programs[1].good.pop().map(|end| end.context), Some(round));
        assert_eq!(buffer, round.to_ne_bytes());
    }
    // What is there already is nothing to wait for, nor is a signal.
    signal(programs[1].cq);
    assert_eq!((trywait(&programs[1]), trywait(&programs[1])), (-FI_EAGAIN, 0));
    programs[1].receive(0, 3, 0, &mut buffer, 1);
    send(&mut programs, 0, 1, 3, b"the last", 0);
    let limit = Instant::now() + Duration::from_secs(60);
    while trywait(&programs[1]) == 0 {
        programs[0].progress();
        assert!(Instant::now() < limit, "the message does not come");
    }
    assert_eq!(sread(programs[1].cq, FOREVER).unwrap().context, 1);
}

#[test]
fn a_peers_message_ends_a_wait_for_a_counter() {
    let programs = [Program::new(), Program::counting()];
    Program::make_known(&programs);
    let counter = programs[1].received.as_ref().unwrap();
    let mut buffer = [0; 8];
    programs[1].receive(0, 3, 0, &mut buffer, 1);
    let (shared, counted) = (Shared(&programs[0]), Shared::<&Counter>(counter));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| counted.get().wait(1, FOREVER));
        std::thread::sleep(Duration::from_millis(30));
        while shared.get().try_send(1, 3, b"a peer's", 0) == -(FI_EAGAIN as isize) {}
        assert_eq!(waits.join().unwrap(), 0);
    });
    assert_eq!(&buffer, b"a peer's");
}
