//! What can be tested without a program to be in: the table, the walk, messages, the environment. The rest is
//! tested in programs, in the folder `tests/sockets`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use crate::page::Direction;
use crate::table::{self, Early, Kind, Word};
use crate::{elf, environment, seen};

mod counting;

/// Numbers of descriptors belong to the whole process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

#[test]
fn words_are_packed_without_loss() {
    for kind in [Kind::Unknown, Kind::Other, Kind::Tcp, Kind::Listener, Kind::Socket] {
        let word = Word { kind, maker: 0x5a, record: 0xfffe, epoch: 0x1234, generation: 0xabcd };
        assert_eq!(Word::unpack(word.pack()), word);
    }
    assert_eq!(Word::unpack(0xff).kind, Kind::Unknown);
}

#[test]
fn each_length_is_copied_and_nothing_beside_it() {
    const AROUND: usize = 32;
    let from: Vec<u8> = (0..400).map(|at| at as u8 | 1).collect();
    for length in 0..300 {
        for start in 0..3 {
            let mut to = std::vec![0; length + 2 * AROUND];
            // SAFETY: both are that long and more, and no part of each other.
            unsafe { crate::rings::copy(from.as_ptr().add(start), to.as_mut_ptr().add(AROUND), length) };
            assert_eq!(to[AROUND..AROUND + length], from[start..start + length], "{length} from {start}");
            assert!(to[..AROUND].iter().chain(&to[AROUND + length..]).all(|byte| *byte == 0), "{length}");
        }
    }
}

fn next(name: &core::ffi::CStr) -> usize {
    // SAFETY: a name that ends with 0.
    unsafe { elf::next(name.as_ptr().cast(), elf::hash(name)) }
}

#[test]
fn the_next_definition_is_the_c_librarys() {
    for name in [c"read", c"close", c"__errno_location", c"posix_spawn"] {
        let found = next(name);
        // SAFETY: asks for a name.
        let wanted = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
        assert_eq!(found, wanted, "{name:?}");
    }
    assert_eq!(next(c"no_such_function"), 0);
}

#[test]
fn a_connection_is_recognised_and_counted_once() {
    let _alone = alone();
    let (mut near, mut far) = connection();
    let fd = near.as_raw_fd();
    near.write_all(b"abc").unwrap();
    for _ in 0..5 {
        seen::output(fd, 3);
    }
    let word = table::word(fd);
    assert_eq!((word.kind, word.record != 0, table::brief(fd)), (Kind::Tcp, true, 1));
    table::doubt();
    assert_eq!(table::brief(fd), 0);
    seen::input(fd, 3);
    assert_eq!(table::brief(fd), 1);
    let after = table::word(fd);
    assert_eq!(after, Word { epoch: after.epoch, ..word }, "the cookie says that it is the same");
    far.read_exact(&mut [0; 3]).unwrap();
    seen::closing(fd);
    assert_eq!((table::word(fd).kind, table::word(fd).record, table::brief(fd)), (Kind::Unknown, 0, 0));
}

#[test]
fn what_is_counted_before_there_is_a_record_fits_its_place() {
    let mut early = Early::default();
    for bytes in [1, 1 << 27, (1 << 27) - 2] {
        early = early.and(Direction::In, bytes).unwrap().and(Direction::Out, 2).unwrap();
        assert_eq!(Early::unpack(early.pack()), early);
    }
    assert_eq!((early.uses, early.bytes_in, early.bytes_out), (6, (1 << 28) - 1, 6));
    assert_eq!(early.and(Direction::In, 1), None);
    assert_eq!(early.and(Direction::Out, u64::MAX), None);
    let most = (0..249).try_fold(early, |early, _| early.and(Direction::Out, 0)).unwrap();
    assert_eq!((most.uses, Early::unpack(most.pack())), (255, most));
    assert_eq!(most.and(Direction::Out, 0), None);
}

#[test]
fn a_connection_is_short_until_it_was_used_often_or_has_moved_much() {
    let uses = |bytes| {
        let mut early = Early::default();
        core::iter::from_fn(move || {
            early.and(Direction::In, bytes).map(|next| (early = next, early.is_short()).1)
        })
        .take_while(|is_short| *is_short)
        .count()
    };
    assert_eq!((uses(1), uses(8192), uses(1 << 20)), (9, 4, 0));
}

#[test]
fn what_was_replaced_unseen_is_found_out() {
    let _alone = alone();
    let (near, other) = (connection(), connection());
    let fd = near.0.as_raw_fd();
    for _ in 0..5 {
        seen::input(fd, 1);
    }
    let before = table::word(fd);
    // SAFETY: another connection takes the place of this one; no interposer sees it, as this is a test.
    unsafe { libc::dup2(other.0.as_raw_fd(), fd) };
    assert_eq!(table::word(fd), before);
    table::doubt();
    seen::input(fd, 1);
    let after = table::word(fd);
    assert_eq!(after.kind, Kind::Tcp);
    assert_ne!(after.generation, before.generation);
    let null = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: as above.
    unsafe { libc::dup2(null.as_raw_fd(), fd) };
    table::doubt();
    seen::input(fd, 1);
    assert_eq!((table::word(fd).kind, table::brief(fd)), (Kind::Other, 2));
    seen::closing(fd);
}

#[test]
fn what_hooks_tell_is_known() {
    let _alone = alone();
    // Numbers that nobody has.
    let (a, b) = (60_001, 60_002);
    seen::made(a, Kind::Tcp);
    assert_eq!(table::kind(a), Kind::Tcp);
    seen::copied(a, b);
    assert_eq!(table::kind(b), Kind::Tcp);
    seen::listens(a);
    assert_eq!((table::kind(a), table::kind(b)), (Kind::Listener, Kind::Tcp));
    seen::accepted(a, b);
    assert_eq!(table::kind(b), Kind::Tcp);
    seen::closing_range(a as u32, u32::MAX);
    assert_eq!((table::kind(a), table::kind(b)), (Kind::Unknown, Kind::Unknown));
    // Outside the table, and no descriptors at all.
    for fd in [-1, i32::MIN, 1 << 16, i32::MAX] {
        assert_eq!(seen::made(fd, Kind::Tcp), fd);
        seen::closing(fd);
        seen::input(fd, 5);
        assert_eq!(table::kind(fd), Kind::Unknown);
    }
    seen::closing_range(5, 4);
    seen::closing_range(u32::MAX, u32::MAX);
}

#[test]
fn threads_that_race_do_no_harm() {
    let _alone = alone();
    let (near, _far) = connection();
    let fd = near.as_raw_fd();
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                for round in 0..2000 {
                    match (number + round) % 4 {
                        0 => seen::closing(fd),
                        1 => drop(seen::made(fd, Kind::Tcp)),
                        _ => seen::input(fd, 1),
                    }
                }
            });
        }
    });
    seen::closing(fd);
    seen::input(fd, 1);
    assert_eq!(table::word(fd).kind, Kind::Tcp);
    seen::closing(fd);
}

#[test]
fn more_connections_than_records_are_still_known() {
    let _alone = alone();
    let all: Vec<_> = (0..130).map(|_| connection()).collect();
    let fds = || all.iter().flat_map(|(near, far)| [near.as_raw_fd(), far.as_raw_fd()]);
    for fd in fds() {
        seen::input(fd, 1);
        assert_eq!(table::word(fd).kind, Kind::Tcp);
    }
    let without = fds().filter(|fd| table::word(*fd).record == u16::MAX).count();
    assert!(without >= 260 - sockets_rules::layout::RECORDS, "{without}");
    fds().for_each(seen::closing);
}

#[test]
fn a_message_with_any_lengths_is_read_within_its_bounds() {
    let _alone = alone();
    let mut random = 1_u64;
    for _ in 0..20_000 {
        let mut control = [0_u64; 8];
        for word in &mut control {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Small numbers are lengths, levels and types that mean something.
            *word = if random >> 62 == 0 { random } else { random >> 58 };
        }
        // SAFETY: all zero is a valid header of a message.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = (random >> 33) as usize % (size_of_val(&control) + 1);
        // SAFETY: the control data is readable to its length.
        unsafe { seen::received(&raw const message) };
    }
}

#[test]
fn the_library_takes_itself_out_of_a_list() {
    for (list, left) in [
        ("/l/libtieline-sockets.so", ""),
        ("/l/libtieline-sockets.so:/j.so", "/j.so"),
        ("/j.so /l/libtieline-sockets.so b.so", "/j.so:b.so"),
        ("a.so:b.so", "a.so:b.so"),
        ("/l/libtieline-sockets.so.old", "/l/libtieline-sockets.so.old"),
        ("", ""),
        (":::", ""),
    ] {
        let mut text: Vec<u8> = list.bytes().chain([0]).collect();
        // SAFETY: a text with its end.
        let any = unsafe { environment::without_ours(text.as_mut_ptr()) };
        let end = text.iter().position(|byte| *byte == 0).unwrap();
        assert_eq!(std::str::from_utf8(&text[..end]).unwrap(), left, "{list}");
        assert_eq!(any, !left.is_empty(), "{list}");
    }
}

#[test]
fn what_was_told_to_the_library_leaves_the_environment() {
    let texts = ["A=1", "TIELINE_SOCKETS_CHILDREN=0", "LD_PRELOAD=/x/libtieline-sockets.so", "B=2"];
    let mut texts: Vec<Vec<u8>> = texts.iter().map(|text| text.bytes().chain([0]).collect()).collect();
    let mut list: Vec<*mut core::ffi::c_char> = texts.iter_mut().map(|it| it.as_mut_ptr().cast()).collect();
    list.push(core::ptr::null_mut());
    let (first, last) = (list[0], list[3]);
    // SAFETY: texts with their ends, in a list with its end.
    unsafe { environment::withdraw(list.as_mut_ptr()) };
    assert_eq!(list[..3], [first, last, core::ptr::null_mut()]);
}

/// Last, in a process of its own: it cannot be taken back.
#[test]
fn a_table_that_was_given_up_knows_nothing() {
    if std::env::var_os("TIELINE_TEST_GIVES_UP").is_none() {
        let own = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(own);
        child.args(["--exact", "tests::a_table_that_was_given_up_knows_nothing"]);
        let output = child.env("TIELINE_TEST_GIVES_UP", "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let (near, _far) = connection();
    let fd = near.as_raw_fd();
    for _ in 0..6 {
        seen::input(fd, 1);
    }
    assert_eq!(table::kind(fd), Kind::Tcp);
    crate::state::shares_memory();
    assert_eq!(table::kind(fd), Kind::Unknown);
    seen::input(fd, 1);
    assert_eq!(table::brief(fd), 0);
    seen::made(fd, Kind::Tcp);
    assert_eq!((table::kind(fd), table::brief(fd)), (Kind::Unknown, 0));
}

#[test]
fn bytes_of_any_length_are_copied() {
    for length in 0..300_usize {
        for (skip, to_skip) in [(0, 0), (1, 3), (7, 2)] {
            let from: Vec<u8> = (0..length + skip).map(|at| at as u8 ^ 0x5a).collect();
            let mut to = std::vec![0xee_u8; length + 16];
            // SAFETY: both are as long as that.
            unsafe { crate::rings::copy(from.as_ptr().add(skip), to.as_mut_ptr().add(to_skip), length) };
            assert_eq!(to[to_skip..to_skip + length], from[skip..], "{length}");
            let around = to[..to_skip].iter().chain(&to[to_skip + length..]);
            assert!(around.into_iter().all(|byte| *byte == 0xee), "{length}");
        }
    }
}
