use shm::region::{Region, RegionOptions};

use super::{mailbox::*, *};
use crate::rng::Rng;

fn region() -> Region {
    Region::create(&RegionOptions::new("desk", MAILBOX_BYTES)).unwrap()
}

/// Adds its arguments; refuses task 9.
struct Adder;

impl Service for Adder {
    fn follow(&mut self, order: &Order) -> Result<u64> {
        match order.task {
            1 => Ok(order.arguments.iter().fold(0, |sum: u64, n| sum.wrapping_add(*n))),
            2 => Err(crate::poll::no_answer("test")),
            3 => check("test", &[1, 2, 3], 77).map(|()| 0),
            4 => Err(shm::Error::TooLarge { size_bytes: 8, available_bytes: 4, limit: "test" }.into()),
            _ => Err(BenchError::Usage("no such task".into())),
        }
    }
}

#[test]
fn orders_are_followed_and_failures_told() {
    let region = region();
    let mailbox = Mailbox::new(region.window(), Tool::Dma).unwrap();
    std::thread::scope(|scope| {
        let server =
            scope.spawn(|| Mailbox::new(region.window(), Tool::Dma).unwrap().serve(&mut Adder, &|| Ok(())));
        let mut number = 0;
        let mut order = |task, arguments| {
            number += 1;
            mailbox.send(number, &Order::new(task, arguments)).unwrap();
            mailbox.answer(number, &|_| Ok(()))
        };
        assert_eq!(order(1, [1, 20, 300]).unwrap(), 321);
        assert!(matches!(order(2, [0; 3]), Err(BenchError::NoAnswer { .. })));
        for (task, words) in [(3, "wrong bytes"), (4, "memory"), (9, "refused")] {
            let error = order(task, [0; 3]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(order(1, [u64::MAX, 2, 0]).unwrap(), 1);
        order(Order::STOP, [0; 3]).unwrap();
        server.join().unwrap().unwrap();
    });
}

#[test]
fn a_head_is_read_as_it_was_written() {
    let region = region();
    let mailbox = Mailbox::new(region.window(), Tool::Intr).unwrap();
    let nobody = mailbox.head().unwrap_err().to_string();
    assert!(nobody.contains("intr") && nobody.contains("same version"), "{nobody}");
    let mine = Head::of(Tool::Intr, 77);
    mailbox.sign(&mine).unwrap();
    assert_eq!(mailbox.head().unwrap(), mine);
    mine.check(Tool::Intr).unwrap();
    let other = mine.check(Tool::Dma).unwrap_err().to_string();
    assert!(other.contains("dma") && other.contains("runs intr"), "{other}");
    let newer = Head { form: FORM + 1, version: "9.9.9".into(), ..mine };
    let error = newer.check(Tool::Intr).unwrap_err().to_string();
    assert!(error.contains("9.9.9") && error.contains(env!("CARGO_PKG_VERSION")), "{error}");
}

/// Whatever a peer writes into the words: the server answers or ignores it, and ends when told.
#[test]
fn scribbled_words_do_no_harm() {
    let region = region();
    let mut rng = Rng::new(3);
    std::thread::scope(|scope| {
        let server =
            scope.spawn(|| Mailbox::new(region.window(), Tool::Dma).unwrap().serve(&mut Adder, &|| Ok(())));
        let mailbox = Mailbox::new(region.window(), Tool::Dma).unwrap();
        for number in 1..100 {
            for offset in (0..MAILBOX_BYTES).step_by(8).filter(|offset| !(128..136).contains(offset)) {
                region.window().store_u64(offset, rng.next_u64() >> rng.below(64)).unwrap();
            }
            assert!(mailbox.head().map_or(true, |head| head.version.len() <= 32));
            let order = Order::new(rng.next_u64() >> 1, [rng.next_u64(), rng.next_u64(), rng.next_u64()]);
            mailbox.send(number, &order).unwrap();
            let _ = mailbox.answer(number, &|_| Ok(()));
        }
        mailbox.send(100, &Order::new(Order::STOP, [0; 3])).unwrap();
        server.join().unwrap().unwrap();
    });
}

#[test]
fn a_server_whose_client_is_gone_ends_with_the_reason() {
    let region = region();
    let mailbox = Mailbox::new(region.window(), Tool::Dma).unwrap();
    let result = mailbox.serve(&mut Adder, &|| Err(BenchError::Usage("gone".into())));
    assert!(matches!(result, Err(BenchError::Usage(text)) if text == "gone"));
    let waiting = mailbox.answer(5, &|_| Err(BenchError::Usage("server gone".into())));
    assert!(matches!(waiting, Err(BenchError::Usage(text)) if text == "server gone"));
}

/// The server may answer and end between two of the client's looks.
#[test]
fn an_answer_of_a_server_that_has_ended_counts() {
    let region = region();
    let mailbox = Mailbox::new(region.window(), Tool::Dma).unwrap();
    mailbox.send(1, &Order::new(Order::STOP, [0; 3])).unwrap();
    let ends = |_| {
        mailbox.serve(&mut Adder, &|| Ok(())).unwrap();
        Err(BenchError::Usage("server gone".into()))
    };
    assert_eq!(mailbox.answer(1, &ends).unwrap(), 0);
}

#[test]
fn checked_blocks() {
    let mut block = vec![0; 100_000];
    fill(&mut block, 5);
    check("test", &block, 5).unwrap();
    assert!(check("test", &block, 6).is_err());
    block[70_000] ^= 0x10;
    assert!(matches!(check("test", &block, 5), Err(BenchError::WrongData { at: 70_000, .. })));
    assert!(check("test", &block[256..512], 5).is_err());
}

#[test]
fn a_processor_that_does_not_exist_is_named() {
    let error = cpu_of(Some(9_999_999), true).unwrap_err().to_string();
    assert!(error.contains("9999999") && error.contains("no such processor"), "{error}");
    assert!(crate::cpus::allowed().unwrap().contains(&cpu_of(None, true).unwrap()));
}
