//! Messages, as libfabric and a program see the provider: see `program`.
#![allow(clippy::unwrap_used)]

mod program;

use fabric_sys::abi::*;
use fabric_sys::constants::*;
use program::{FI_DIRECTED_RECV, Program, bytes_of, info, send, until};

#[test]
fn messages_of_every_size_arrive_whole_expected_or_not() {
    let mut programs = Program::several::<2>();
    let sizes = [0, 1, 7, 8, 32, 33, 100, 4095, 16 << 10, (16 << 10) + 1, 100_000, 1 << 20, 4 << 20];
    for is_expected in [true, false] {
        for to in [1_usize, 0] {
            for (number, len) in sizes.into_iter().enumerate() {
                let bytes = bytes_of(number, len);
                let mut buffer = vec![0; len];
                let tag = number as u64;
                if is_expected {
                    programs[to].receive(0, tag, 0, &mut buffer, 1000 + number);
                }
                send(&mut programs, 0, to as u64, tag, &bytes, number);
                if !is_expected {
                    programs.iter_mut().for_each(Program::progress);
                    programs[to].receive(FI_ADDR_UNSPEC, tag, 0, &mut buffer, 1000 + number);
                }
                let has = |program: &Program, context: usize| {
                    program.good.iter().find(|entry| entry.context == context).copied()
                };
                until(&mut programs, |p| {
                    has(&p[0], number).is_some() && has(&p[to], 1000 + number).is_some()
                });
                let entry = has(&programs[to], 1000 + number).unwrap();
                assert_eq!((entry.len, entry.tag, entry.flags), (len, tag, FI_RECV | FI_TAGGED));
                assert!(buffer == bytes, "{len} bytes to {to}");
                programs.iter_mut().for_each(|program| program.good.clear());
                assert!(programs.iter().all(|program| program.bad.is_empty()));
            }
        }
    }
}

#[test]
fn none_overtakes_another_of_its_sender() {
    let mut programs = Program::several::<3>();
    // More than the rings hold, so that room is waited for, too; long and short in turn.
    let messages = 600;
    let len = |number: usize| [0, 8, 3000, 40_000][number % 4];
    let sent: Vec<Vec<u8>> = (0..messages).map(|number| bytes_of(number, len(number))).collect();
    let mut buffers: Vec<Vec<u8>> = (0..2 * messages).map(|_| vec![0; 40_000]).collect();
    for (number, bytes) in sent.iter().enumerate() {
        // Half of the receives are posted before, with wildcards: any source, or any tag of this source.
        if number % 2 == 0 {
            for source in [0, 1] {
                let at = 2 * number + source;
                let from = if number % 4 == 0 { source as u64 } else { FI_ADDR_UNSPEC };
                programs[2].receive(from, 9, u64::MAX, &mut buffers[at], at);
            }
        }
        for source in [0, 1] {
            send(&mut programs, source, 2, number as u64, bytes, 0);
        }
    }
    for at in 0..messages {
        let at = 2 * (2 * (at / 2) + 1) + at % 2;
        programs[2].receive(FI_ADDR_UNSPEC, 0, u64::MAX, &mut buffers[at], at);
    }
    until(&mut programs, |p| p[2].good.len() == 2 * messages);
    // In the order of posting: first those before, then those after.
    let order: Vec<usize> = (0..2 * messages)
        .filter(|at| at / 2 % 2 == 0)
        .chain((0..2 * messages).filter(|at| at / 2 % 2 == 1))
        .collect();
    // How often each message came; which sender it was is told by the order alone.
    let mut next = [0usize; 2];
    let mut counts = vec![0; messages];
    for at in order {
        let entry = programs[2].good.iter().find(|entry| entry.context == at).unwrap();
        let number = entry.tag as usize;
        assert_eq!(entry.len, len(number));
        assert!(buffers[at][..entry.len] == sent[number][..], "message {number}");
        // It is the next one of one of the two senders.
        let source = next.iter().position(|next| *next == number);
        let source = source.unwrap_or_else(|| panic!("message {number} when {next:?} were next"));
        next[source] += 1;
        counts[number] += 1;
    }
    assert!(counts.iter().all(|count| *count == 2));
}

#[test]
fn too_little_room_is_an_error_with_what_was_too_much() {
    let mut programs = Program::several::<2>();
    for (number, len) in [100, 1 << 20].into_iter().enumerate() {
        let bytes = bytes_of(number, len);
        let mut buffer = vec![0xdd; len];
        programs[1].receive(0, 3, 0, &mut buffer[..len / 4], 50 + number);
        send(&mut programs, 0, 1, 3, &bytes, number);
        until(&mut programs, |p| p[1].bad.len() == 1 && p[0].good.len() == 1);
        assert_eq!(programs[1].bad, [(50 + number, FI_ETRUNC, len - len / 4)]);
        assert!(buffer[..len / 4] == bytes[..len / 4] && buffer[len / 4..].iter().all(|byte| *byte == 0xdd));
        programs[1].bad.clear();
        programs[0].good.clear();
    }
}

#[test]
fn a_receive_that_is_cancelled_takes_nothing() {
    let mut programs = Program::several::<2>();
    let (mut first, mut second) = ([0; 8], [0; 8]);
    programs[1].receive(FI_ADDR_UNSPEC, 1, 0, &mut first, 11);
    programs[1].receive(FI_ADDR_UNSPEC, 1, 0, &mut second, 12);
    // SAFETY: a pointer of the program's that is only compared.
    let cancelled = unsafe {
        (*(*programs[1].ep).ops).cancel.unwrap()(programs[1].ep.cast(), std::ptr::without_provenance_mut(11))
    };
    assert_eq!(cancelled, 0);
    send(&mut programs, 0, 1, 1, b"to 12 !!", 0);
    until(&mut programs, |p| p[1].good.len() == 1 && p[1].bad.len() == 1);
    assert_eq!((programs[1].bad[0].0, programs[1].bad[0].1), (11, FI_ECANCELED));
    assert_eq!((programs[1].good[0].context, &second), (12, b"to 12 !!"));
}

#[test]
fn what_it_cannot_do_is_not_promised() {
    // SAFETY: zeroed structures, and a pointer between two that live as long.
    let with = |change: &dyn Fn(&mut fi_info, &mut fi_domain_attr, &mut fi_ep_attr)| unsafe {
        let (mut hints, mut domain, mut ep) =
            (std::mem::zeroed::<fi_info>(), fi_domain_attr::zeroed(), fi_ep_attr::zeroed());
        change(&mut hints, &mut domain, &mut ep);
        (hints.domain_attr, hints.ep_attr) = (&raw mut domain, &raw mut ep);
        info(&raw const hints).map(|info| (*info).caps)
    };
    assert!(with(&|hints, _, _| hints.caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM).is_ok());
    // `FI_NAMED_RX_CTX`: there is one context for all receives.
    assert_eq!(with(&|hints, _, _| hints.caps = FI_RMA | 1 << 58), Err(-FI_ENODATA));
    // Operations on memory are there if they are asked for, of both sides if none is named.
    let sides = |caps| with(&|hints, _, _| hints.caps = caps).unwrap();
    let all = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    assert_eq!(sides(FI_TAGGED) & (FI_RMA | FI_ATOMIC | all), 0);
    assert_eq!(sides(FI_RMA) & (FI_RMA | FI_ATOMIC | all), FI_RMA | all);
    assert_eq!(sides(FI_ATOMIC | FI_READ) & (FI_RMA | FI_ATOMIC | all), FI_ATOMIC | FI_READ);
    // Progress by the provider itself is there if it is asked for.
    assert!(with(&|_, domain, _| domain.data_progress = FI_PROGRESS_AUTO).is_ok());
    assert_eq!(with(&|_, domain, _| domain.mr_key_size = 9), Err(-FI_ENODATA));
    assert_eq!(with(&|_, _, ep| ep.r#type = 1), Err(-FI_ENODATA));
    // Sources are matched only if that is asked for.
    assert_eq!(with(&|hints, _, _| hints.caps = FI_TAGGED).unwrap() & FI_DIRECTED_RECV, 0);
}
