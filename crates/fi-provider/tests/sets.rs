//! Poll sets, wait sets and the descriptors of counters: see `program`.
#![allow(clippy::unwrap_used)]

mod program;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use fabric_sys::abi::*;
use fabric_sys::constants::*;
use program::{
    COUNTER, Program, QUEUE, Shared, Waits, counter, descriptor, send, trywait, until, wait_readable,
};

const FI_EBUSY: i32 = libc::EBUSY;

/// `struct fid_poll`.
#[repr(C)]
struct PollObject {
    fid: fid,
    ops: *const PollOps,
}

#[repr(C)]
struct PollOps {
    size: usize,
    poll: unsafe extern "C" fn(*mut PollObject, *mut *mut c_void, i32) -> i32,
    poll_add: unsafe extern "C" fn(*mut PollObject, *mut fid, u64) -> i32,
    poll_del: unsafe extern "C" fn(*mut PollObject, *mut fid, u64) -> i32,
}

struct PollSet(*mut PollObject);

impl PollSet {
    fn new(program: &Program) -> Self {
        Self::with(program, 0).unwrap()
    }

    fn with(program: &Program, mut flags: u64) -> Result<Self, i32> {
        type Open = unsafe extern "C" fn(*mut fid_domain, *mut u64, *mut *mut PollObject) -> i32;
        let mut set = null_mut();
        // SAFETY: the table is the provider's, and the member has this type; the attributes are the flags.
        let got = unsafe {
            let open: Open = std::mem::transmute((*(*program.domain).ops).poll_open);
            open(program.domain, &raw mut flags, &raw mut set)
        };
        if got == 0 { Ok(Self(set)) } else { Err(got) }
    }

    fn add(&self, fid: *mut fid) -> i32 {
        // SAFETY: an open set, and an object of the program's.
        unsafe { ((*(*self.0).ops).poll_add)(self.0, fid, 0) }
    }

    fn remove(&self, fid: *mut fid) -> i32 {
        // SAFETY: likewise.
        unsafe { ((*(*self.0).ops).poll_del)(self.0, fid, 0) }
    }

    /// What has come, told in an array of so many places.
    fn poll(&self, room: usize) -> Vec<usize> {
        let mut contexts = vec![null_mut(); room];
        // SAFETY: the array has so many places.
        let told = unsafe { ((*(*self.0).ops).poll)(self.0, contexts.as_mut_ptr(), room as i32) };
        contexts.truncate(usize::try_from(told).unwrap());
        contexts.iter().map(|context| context.addr()).collect()
    }

    fn close(&self) -> i32 {
        close(self.0.cast())
    }
}

fn close(fid: *mut fid) -> i32 {
    // SAFETY: an open object; if it is closed, it is used no more.
    unsafe { (*(*fid).ops).close.unwrap()(fid) }
}

#[test]
fn a_poll_set_tells_what_has_come_and_nothing_else() {
    let mut programs = [Program::new(), Program::counting()];
    Program::make_known(&programs);
    let set = PollSet::new(&programs[1]);
    let (cq, counted) = (programs[1].cq.cast::<fid>(), programs[1].received.as_ref().unwrap().fid());
    assert_eq!((set.add(cq), set.add(counted)), (0, 0));
    assert!(set.poll(4).is_empty());
    let mut buffer = [0; 8];
    for _ in 0..3 {
        programs[1].receive(0, 3, 0, &mut buffer, 7);
        let limit = Instant::now() + Duration::from_secs(60);
        while programs[0].try_send(1, 3, b"polled!!", 0) == -(FI_EAGAIN as isize) {
            programs[0].progress();
            set.poll(0);
        }
        // Progress is made by the set alone.
        let mut told = Vec::new();
        while told.len() < 2 {
            programs[0].progress();
            told.extend(set.poll(1));
            assert!(Instant::now() < limit, "{told:?}");
            if told.ends_with(&[QUEUE, QUEUE]) {
                // Where there is room for one, the first is told again and again, until it is read.
                programs[1].progress();
                told.pop();
            }
        }
        assert_eq!(told, [QUEUE, COUNTER]);
        assert!(set.poll(4).is_empty(), "a counter is told once");
        programs[1].progress();
        assert_eq!(programs[1].good.pop().map(|end| end.context), Some(7));
    }
    // What the program itself does to a counter is no event; an error is one.
    let received = programs[1].received.as_ref().unwrap();
    received.add(5);
    assert!(set.poll(4).is_empty());
    assert_eq!(received.read(), 8);
    received.add_error(1);
    assert_eq!((set.poll(4), set.poll(4)), (vec![COUNTER], vec![]));
    // A set that is made later tells what was there before, and what is still unread.
    programs[1].receive(0, 3, 0, &mut buffer, 8);
    send(&mut programs, 0, 1, 3, b"unread!!", 0);
    let later = PollSet::new(&programs[1]);
    assert_eq!((later.add(counted), later.remove(counted)), (0, 0));
    assert_eq!(later.add(counted), 0);
    assert_eq!(later.poll(4), [COUNTER]);
    assert_eq!((later.remove(counted), later.close()), (0, 0));
    until(&mut programs, |programs| !programs[1].good.is_empty());
    assert_eq!((set.remove(cq), set.remove(counted), set.close()), (0, 0, 0));
}

#[test]
fn what_is_in_a_set_stays_open_and_what_is_none_is_refused() {
    let (program, other) = (Program::new(), Program::new());
    assert!(PollSet::with(&program, 1).is_err_and(|error| error == -FI_EINVAL));
    let set = PollSet::new(&program);
    let cq = program.cq.cast::<fid>();
    assert_eq!(
        (set.remove(cq), set.add(other.cq.cast()), set.add(program.av.cast())),
        (-FI_EINVAL, -FI_EINVAL, -FI_EINVAL)
    );
    assert_eq!((set.add(cq), set.add(cq)), (0, -FI_EINVAL));
    let counter = counter(&program);
    assert_eq!((set.add(counter.fid()), close(counter.fid())), (0, -FI_EBUSY));
    assert_eq!((set.close(), close(program.domain.cast())), (-FI_EBUSY, -FI_EBUSY));
    assert_eq!((set.remove(cq), set.remove(counter.fid()), set.remove(cq)), (0, 0, -FI_EINVAL));
    assert_eq!(set.close(), 0);
}

#[test]
fn the_descriptor_of_a_counter_becomes_readable_when_it_changes() {
    let mut programs = [Program::new(), Program::counting_with(Waits::NOT, Waits::FD)];
    Program::make_known(&programs);
    let counted = programs[1].received.as_ref().unwrap().fid();
    let plain = counter(&programs[0]);
    assert_eq!((descriptor(plain.fid()), trywait(&programs[0], plain.fid())), (Err(-FI_ENOSYS), -FI_EINVAL));
    drop(plain);
    let fd = descriptor(counted).unwrap();
    let mut buffer = [0; 8];
    for round in 0..20_u64 {
        programs[1].receive(0, 3, 0, &mut buffer, 7);
        let is_late = round % 3 == 0;
        if !is_late {
            send(&mut programs, 0, 1, 3, &round.to_ne_bytes(), 0);
        }
        let (mut waits, limit) = (0, Instant::now() + Duration::from_secs(60));
        while programs[1].received.as_ref().unwrap().read() == round {
            assert!(Instant::now() < limit, "nothing comes");
            match trywait(&programs[1], counted) {
                0 => {
                    waits += 1;
                    if is_late && waits == 3 {
                        while programs[0].try_send(1, 3, &round.to_ne_bytes(), 0) == -(FI_EAGAIN as isize) {
                            programs[0].progress();
                        }
                    }
                    wait_readable(fd);
                }
                again => assert_eq!(again, -FI_EAGAIN),
            }
        }
        assert_eq!(buffer, round.to_ne_bytes());
        programs[1].progress();
    }
    // A change that was not read is nothing to wait for, once: the program reads both values then.
    let received = programs[1].received.as_ref().unwrap();
    let again = [0, 1].map(|_| trywait(&programs[1], counted));
    assert_eq!(again, [0, 0], "all is read");
    received.add_error(1);
    let again = [0, 1].map(|_| trywait(&programs[1], counted));
    assert_eq!(again, [-FI_EAGAIN, 0]);
    // A change by another thread wakes who waits.
    std::thread::scope(|scope| {
        let received = Shared(received);
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            received.get().add(1);
        });
        while trywait(&programs[1], counted) == 0 {
            wait_readable(fd);
        }
    });
}

/// `struct fid_wait`.
#[repr(C)]
struct WaitObject {
    fid: fid,
    ops: *const WaitOps,
}

#[repr(C)]
struct WaitOps {
    size: usize,
    wait: unsafe extern "C" fn(*mut WaitObject, i32) -> i32,
}

struct WaitSet(*mut WaitObject);

impl WaitSet {
    fn new(program: &Program, wait_obj: u32) -> Result<Self, i32> {
        type Open = unsafe extern "C" fn(*mut fid_fabric, *mut [u64; 2], *mut *mut WaitObject) -> i32;
        // The kind in the lower half of its word, and the flags.
        let (mut attr, mut set) = ([u64::from(wait_obj), 0], null_mut());
        // SAFETY: the table is the provider's, and the member has this type.
        let got = unsafe {
            let open: Open = std::mem::transmute((*(*program.fabric).ops).wait_open);
            open(program.fabric, &raw mut attr, &raw mut set)
        };
        if got == 0 { Ok(Self(set)) } else { Err(got) }
    }

    fn fid(&self) -> *mut fid {
        self.0.cast()
    }

    fn wait(&self, timeout: i32) -> i32 {
        // SAFETY: an open set.
        unsafe { ((*(*self.0).ops).wait)(self.0, timeout) }
    }
}

/// The first sends; the second has a queue and a counter in the set, the third its queue.
fn in_set(set: &WaitSet) -> [Program; 3] {
    let waits = Waits::in_set(set.fid());
    let programs = [Program::new(), Program::counting_with(waits, waits), Program::waiting(waits)];
    Program::make_known(&programs);
    programs
}

#[test]
fn a_wait_for_a_set_ends_with_whatever_comes_first() {
    let first = Program::new();
    let set = Shared(WaitSet::new(&first, FI_WAIT_UNSPEC).unwrap());
    assert_eq!(descriptor(set.get().fid()), Err(-FI_ENOSYS));
    assert_eq!(trywait(&first, set.get().fid()), -FI_EINVAL);
    assert_eq!(set.get().wait(0), -FI_ETIMEDOUT);
    let mut programs = in_set(set.get()).map(Shared);
    assert_eq!(close(set.get().fid()), -FI_EBUSY);
    let began = Instant::now();
    assert_eq!(set.get().wait(30), -FI_ETIMEDOUT);
    assert!(began.elapsed() >= Duration::from_millis(30));
    let mut buffer = [0; 8];
    for round in 0..20_usize {
        let to = 1 + round % 2;
        programs[to].get().receive(0, 3, 0, &mut buffer, round);
        std::thread::scope(|scope| {
            let (set, sender) = (&set, &programs[0]);
            let waits = scope.spawn(move || set.get().wait(-1));
            if round % 5 < 2 {
                std::thread::sleep(Duration::from_millis(20));
            }
            while sender.get().try_send(to as u64, 3, &round.to_ne_bytes(), 0) == -(FI_EAGAIN as isize) {}
            assert_eq!(waits.join().unwrap(), 0);
        });
        // It stays so until it is read.
        assert_eq!(set.get().wait(0), 0);
        programs[0].0.progress();
        while programs[to].get().good.is_empty() {
            programs[to].0.progress();
        }
        programs[to].0.good.clear();
        if to == 1 {
            assert_eq!(programs[1].get().received.as_ref().unwrap().read(), 1 + round as u64 / 2);
        }
        assert_eq!((set.get().wait(0), buffer), (-FI_ETIMEDOUT, round.to_ne_bytes()));
    }
    // A counter alone, and a signal.
    programs[1].get().received.as_ref().unwrap().add(1);
    assert_eq!((set.get().wait(-1), set.get().wait(0)), (0, -FI_ETIMEDOUT));
    type Signal = unsafe extern "C" fn(*mut fid_cq) -> i32;
    let cq = programs[2].get().cq;
    // SAFETY: the table is the provider's, and the member has this type.
    unsafe { assert_eq!(std::mem::transmute::<*const c_void, Signal>((*(*cq).ops).signal)(cq), 0) };
    assert_eq!((set.get().wait(-1), set.get().wait(0)), (0, -FI_ETIMEDOUT));
    drop(programs);
    assert_eq!(close(set.get().fid()), 0);
}

#[test]
fn the_descriptor_of_a_set_becomes_readable_with_whatever_comes_first() {
    let first = Program::new();
    assert!(WaitSet::new(&first, 4).is_err_and(|error| error == -FI_ENOSYS), "no mutex");
    let set = WaitSet::new(&first, FI_WAIT_FD).unwrap();
    let (fd, mut programs, mut buffer) = (descriptor(set.fid()).unwrap(), in_set(&set), [0; 8]);
    for round in 0..20_usize {
        let to = 1 + round % 2;
        programs[to].receive(0, 3, 0, &mut buffer, round);
        let (mut waits, limit) = (0, Instant::now() + Duration::from_secs(60));
        while programs[to].good.is_empty() {
            assert!(Instant::now() < limit, "nothing comes");
            match trywait(&first, set.fid()) {
                0 => {
                    waits += 1;
                    if waits == 1 + round % 3 {
                        let bytes = round.to_ne_bytes();
                        while programs[0].try_send(to as u64, 3, &bytes, 0) == -(FI_EAGAIN as isize) {
                            programs[0].progress();
                        }
                    }
                    wait_readable(fd);
                }
                again => assert_eq!(again, -FI_EAGAIN),
            }
            programs[0].progress();
            programs[to].progress();
        }
        programs[to].good.clear();
        assert_eq!(buffer, round.to_ne_bytes());
    }
    drop(programs);
    assert_eq!(close(set.fid()), 0);
}
