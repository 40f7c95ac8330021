use shm::region::{Region, RegionOptions};

use super::*;
use crate::patterns::{pio::Placement, scipp::near::Near};

fn regions() -> [Region; 2] {
    ["near", "far"].map(|name| Region::create(&RegionOptions::new(name, SEGMENT_BYTES)).unwrap())
}

/// Both sides in threads, the far one as a server that reads orders out of its segment.
fn with_server<R>(
    placement: Placement,
    near: impl FnOnce(&mut FarProcess<'_>, Near<'_>) -> Result<R>,
) -> Result<R> {
    let [mine, theirs] = regions();
    let (mine, theirs) = (mine.window(), theirs.window());
    std::thread::scope(|scope| {
        let server = scope.spawn(move || Server::new(theirs, mine)?.run(&mut || Ok(())));
        let mut far = FarProcess::new(theirs, placement)?;
        let end = match placement {
            Placement::Shared => End { out: theirs, input: theirs, placement },
            Placement::Own => End { out: theirs, input: mine, placement },
        };
        let result = near(&mut far, Near::new(end)?);
        far.stop()?;
        server.join().unwrap()?;
        result
    })
}

#[test]
fn a_server_follows_orders() {
    for placement in [Placement::Shared, Placement::Own] {
        with_server(placement, |far, near| {
            for size in [0, 4, 56, 57, 8192] {
                near.check(far, size, 20)?;
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_wrong_byte_is_told_by_whoever_sees_it() {
    let result = with_server(Placement::Shared, |far, near| {
        let order =
            Order { task: Task::Checked, poll: Poll::Paused, place: 0, size_bytes: 64, base: 2, rounds: 1 };
        let port = near.end().port(0, 64)?;
        far.with(order, &mut || port.send(3, &[0x77; 64]))
    });
    assert!(
        matches!(&result, Err(BenchError::OtherEnd { reason, .. }) if reason.contains("wrong bytes")),
        "{result:?}"
    );
}

#[test]
fn bad_orders_are_refused_and_service_goes_on() {
    with_server(Placement::Own, |far, near| {
        let good = Order { task: Task::Echo, poll: Poll::Tight, place: 0, size_bytes: 4, base: 2, rounds: 0 };
        for bad in [
            Order { place: PLACES, ..good },
            Order { size_bytes: MESSAGE_BYTES_MAX + 1, ..good },
            Order { rounds: ROUNDS_MAX, ..good },
        ] {
            let result = far.with(bad, &mut || Ok(()));
            assert!(
                matches!(&result, Err(BenchError::OtherEnd { reason, .. }) if reason.contains("refused")),
                "{result:?}"
            );
        }
        near.check(far, 8, 5)
    })
    .unwrap();
}

/// Whatever a hostile peer writes into the order words, the server answers or ignores it, and ends
/// when told.
#[test]
fn scribbled_orders_do_no_harm() {
    let [mine, theirs] = regions();
    let (mine, theirs) = (mine.window(), theirs.window());
    let mut rng = crate::rng::Rng::new(11);
    std::thread::scope(|scope| {
        let server = scope.spawn(move || Server::new(theirs, mine)?.run(&mut || Ok(())));
        let control = Control::new(theirs).unwrap();
        for round in 1..200 {
            for offset in [words::PLACE, words::SIZE, words::BASE, words::PLACEMENT, words::POLL] {
                control.window.store_u64(offset, rng.next_u64() >> rng.below(64)).unwrap();
            }
            // Neither the order to stop nor one that waits for a partner: rounds are none, or too
            // many.
            control.window.store_u64(words::TASK, [0, 1, 2, 3, 5, u64::MAX][rng.below(6)]).unwrap();
            control.window.store_u64(words::ROUNDS, [0, ROUNDS_MAX, u64::MAX][rng.below(3)]).unwrap();
            control.number.store(round, Ordering::Release);
            while control.answer.load(Ordering::Acquire) >> 8 != round {
                std::thread::yield_now();
            }
        }
        FarProcess::new(theirs, Placement::Own).unwrap().stop().unwrap();
        server.join().unwrap().unwrap();
    });
}

#[test]
fn a_server_whose_peer_is_gone_ends() {
    let [mine, theirs] = regions();
    let mut server = Server::new(theirs.window(), mine.window()).unwrap();
    let result = server.run(&mut || Err(BenchError::Usage("gone".into())));
    assert!(matches!(result, Err(BenchError::Usage(text)) if text == "gone"));
}

/// A server that was killed leaves an order unanswered: the client reports why, and does not wait
/// for its timeout.
#[test]
fn a_client_whose_server_is_gone_says_so() {
    let [mine, theirs] = regions();
    let (mine, theirs) = (mine.window(), theirs.window());
    let _watched = poll::watched(|_| Err(BenchError::Usage("gone".into())));
    let is_gone = |result: &Result<()>| matches!(result, Err(BenchError::Usage(text)) if text == "gone");
    for placement in [Placement::Shared, Placement::Own] {
        let near = Near::new(End { out: theirs, input: mine, placement }).unwrap();
        let mut far = FarProcess::new(theirs, placement).unwrap();
        let result = near.check(&mut far, 8, 1);
        assert!(is_gone(&result), "while it waits for a message: {result:?}");
        let result = far.stop();
        assert!(is_gone(&result), "while it waits for an answer: {result:?}");
    }
}
