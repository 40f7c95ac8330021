//! Hostile programs in shared memory: every word that a peer can write is written, at random and by design.

use std::time::Duration;

use node_client::{AttachOptions, Client};
use proto::ids::InterruptNo;
use shm::region::{MapAccess, Region};
use tieline::{Error, InterruptOptions};
use tieline_tests::{Cluster, Random, Watchdog};

fn client(cluster: &Cluster, node: usize) -> Client {
    let attach = AttachOptions {
        runtime_dir: Some(cluster.runtime_dir().into()),
        cluster: Some(cluster.name().into()),
        node: Some(cluster.nodes()[node]),
        ..AttachOptions::default()
    };
    Client::attach(&attach, |_| ()).unwrap()
}

/// The memory that a triggering peer can write.
fn trigger_region(client: &Client, cluster: &Cluster, number: InterruptNo) -> Region {
    let grant = client.connect_interrupt(cluster.nodes()[0], number).unwrap();
    // The waiter's own words cannot be written by a peer at all.
    assert!(Region::open(grant.waiter.try_clone().unwrap(), MapAccess::ReadWrite).is_err());
    Region::open(grant.trigger, MapAccess::ReadWrite).unwrap()
}

#[test]
fn a_scribbled_plain_interrupt_is_at_worst_a_spurious_one() {
    let _watchdog = Watchdog::usual("scribbled interrupt");
    let cluster = Cluster::up(2).unwrap();
    let owner = cluster.attach(0).unwrap();
    let interrupt = owner.create_interrupt(&InterruptOptions::default()).unwrap();
    let hostile = client(&cluster, 1);
    let region = trigger_region(&hostile, &cluster, interrupt.number());
    let mut random = Random::new("interrupt");
    for _ in 0..2000 {
        let word = random.below(region.size_bytes() / 8) * 8;
        region.window().store_u64(word, random.draw()).unwrap();
        interrupt.take().unwrap();
    }
    // An interrupt beside it is not touched.
    let other = owner.create_interrupt(&InterruptOptions::default()).unwrap();
    cluster
        .attach(1)
        .unwrap()
        .connect_interrupt(owner.id(), other.number(), Duration::ZERO)
        .unwrap()
        .trigger()
        .unwrap();
    assert_eq!(other.wait(Some(Duration::from_secs(10))).unwrap(), 1);
}

#[test]
fn a_scribbled_message_ring_gives_typed_errors_and_ends_nothing_else() {
    let _watchdog = Watchdog::usual("scribbled ring");
    let cluster = Cluster::up(2).unwrap();
    let owner = cluster.attach(0).unwrap();
    let sender = cluster.attach(1).unwrap();
    let hostile = client(&cluster, 1);
    let mut random = Random::new("ring");
    for round in 0..60 {
        let interrupt = owner.create_data_interrupt(&InterruptOptions::default(), 48, 8).unwrap();
        let honest = sender.connect_data_interrupt(owner.id(), interrupt.number(), Duration::ZERO).unwrap();
        let region = trigger_region(&hostile, &cluster, interrupt.number());
        let mut message = [0; 48];
        for step in 0..200 {
            // By design: small values, the extremes, what stood there plus one; at random: anything.
            let word = random.below(region.size_bytes() / 8) * 8;
            let there = region.window().load_u64(word).unwrap();
            let values =
                [0, 1, u64::MAX, there.wrapping_add(1), there ^ 1 << random.below(64), random.draw()];
            region.window().store_u64(word, values[random.below(values.len())]).unwrap();
            let sent = honest.trigger(format!("{round} {step}").as_bytes());
            let allowed = matches!(sent, Ok(()) | Err(Error::Full { .. } | Error::Corrupt { .. }));
            assert!(allowed, "{sent:?}");
            match interrupt.wait(&mut message, Some(Duration::from_micros(10))) {
                Ok(len) => assert!(len <= message.len()),
                Err(Error::TimedOut { .. } | Error::Corrupt { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
    let good = owner.create_data_interrupt(&InterruptOptions::default(), 48, 8).unwrap();
    let honest = sender.connect_data_interrupt(owner.id(), good.number(), Duration::ZERO).unwrap();
    honest.trigger(b"fine").unwrap();
    let mut message = [0; 48];
    assert_eq!(good.wait(&mut message, Some(Duration::from_secs(10))).unwrap(), 4);
}
