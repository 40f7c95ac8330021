//! The injector counts operations, and injects the faults that it was told to.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use link::injector::{Condition, FaultInjector, FaultPanel};
use link::shm_link::ShmLink;
use link::{Grant, Link, LinkError, RemoteMemory};
use proto::fault::{LinkFaults, MILLION};
use proto::ids::NodeId;
use shm::region::{Region, RegionOptions};

fn eight() -> NodeId {
    NodeId::new(8).unwrap()
}

fn open(link: &dyn Link) -> (Region, Arc<dyn RemoteMemory>) {
    let owner = Region::create(&RegionOptions::new("injector-test", 4096)).unwrap();
    let memory = owner.fd().try_clone_to_owned().unwrap();
    let remote = link.open(Grant { node: eight(), size_bytes: 4096, memory }).unwrap();
    (owner, remote)
}

struct Injured {
    panel: Arc<FaultPanel>,
    injector: FaultInjector,
    owner: Region,
    remote: Arc<dyn RemoteMemory>,
}

impl Injured {
    fn by(faults: LinkFaults) -> Self {
        let panel = Arc::new(FaultPanel::default());
        panel.set(eight(), Condition { down: false, faults });
        let source = Arc::clone(&panel);
        let injector = FaultInjector::injecting(Arc::new(ShmLink::default()), source, 1);
        let (owner, remote) = open(&injector);
        Self { panel, injector, owner, remote }
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.owner.window().get(at, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn it_counts_operations_and_bytes() {
    let injector = FaultInjector::counting(Arc::new(ShmLink::default()));
    let (_owner, remote) = open(&injector);
    remote.put(0, &[1; 10]).unwrap();
    remote.put(0, &[1; 20]).unwrap();
    remote.get(0, &mut [0; 5]).unwrap();
    remote.fetch_add_u64(0, 1).unwrap();
    remote.barrier().unwrap();
    let counts = injector.counts();
    assert_eq!((counts.opens, counts.puts, counts.put_bytes), (1, 2, 30));
    assert_eq!((counts.gets, counts.get_bytes, counts.atomics, counts.barriers), (1, 5, 1, 1));
}

#[test]
fn lost_puts_do_not_arrive_and_the_others_do() {
    let injured = Injured::by(LinkFaults { lose_ppm: MILLION / 3, ..LinkFaults::default() });
    (0..900).for_each(|at| injured.remote.put(at, &[7]).unwrap());
    let arrived = injured.bytes::<900>(0).iter().filter(|byte| **byte == 7).count() as u64;
    let lost = injured.injector.counts().lost;
    assert_eq!(arrived + lost, 900);
    assert!((200..400).contains(&lost), "{lost}");
}

#[test]
fn a_corrupted_put_has_one_inverted_byte() {
    let injured = Injured::by(LinkFaults { corrupt_ppm: MILLION, ..LinkFaults::default() });
    injured.remote.put(8, &[7; 16]).unwrap();
    let arrived = injured.bytes::<16>(8);
    assert_eq!(arrived.iter().filter(|byte| **byte == !7).count(), 1, "{arrived:?}");
    assert_eq!(arrived.iter().filter(|byte| **byte == 7).count(), 15);
    assert_eq!(injured.injector.counts().corrupted, 1);
}

/// Longer than any put is held back.
const LONG_PUTS: usize = 24;

#[test]
fn a_late_duplicate_overwrites_what_came_after_it() {
    let injured = Injured::by(LinkFaults { duplicate_ppm: MILLION, ..LinkFaults::default() });
    injured.remote.put(0, &[1, 1]).unwrap();
    assert_eq!(injured.bytes(0), [1, 1], "the first arrives at once");
    (0..5).for_each(|_| injured.remote.put(100, &[9]).unwrap());
    injured.remote.put(1, &[2]).unwrap();
    assert_eq!(injured.bytes(0), [1, 1], "and again behind a newer one for the same place, which is gone");
    injured.panel.set(eight(), Condition::default());
    injured.remote.barrier().unwrap();
    injured.remote.put(0, &[3, 3]).unwrap();
    assert_eq!(injured.bytes(0), [3, 3], "but only once");
}

#[test]
fn a_reordered_put_stays_away_for_several_others() {
    let injured = Injured::by(LinkFaults { reorder_ppm: MILLION, ..LinkFaults::default() });
    injured.remote.put(0, &[1]).unwrap();
    // Hardly any put is hit from here on, but late ones stay late.
    let faults = LinkFaults { reorder_ppm: 1, ..LinkFaults::default() };
    injured.panel.set(eight(), Condition { down: false, faults });
    let mut passed = 0;
    while injured.bytes(0) == [0] {
        passed += 1;
        assert!(passed <= LONG_PUTS, "it never comes");
        injured.remote.put(100 + passed, &[2]).unwrap();
        assert_eq!(injured.bytes(100 + passed), [2], "the others come at once");
    }
    assert!(passed >= 8, "it was away for {passed} puts only");
    assert_eq!(injured.injector.counts().reordered, 1);
}

#[test]
fn what_is_late_arrives_at_a_barrier_a_read_or_when_the_link_is_well_again() {
    let reorder = LinkFaults { reorder_ppm: MILLION, ..LinkFaults::default() };
    let ends: [fn(&Injured); 4] = [
        |injured| injured.remote.barrier().unwrap(),
        |injured| injured.remote.get(0, &mut [0]).unwrap(),
        |injured| assert_eq!(injured.remote.fetch_add_u64(64, 1).unwrap(), 0),
        |injured| {
            injured.panel.set(eight(), Condition::default());
            injured.remote.put(100, &[1]).unwrap();
        },
    ];
    for end in ends {
        let injured = Injured::by(reorder);
        injured.remote.put(0, &[1]).unwrap();
        injured.remote.put(1, &[2]).unwrap();
        assert_eq!(injured.bytes(0), [0, 0]);
        end(&injured);
        assert_eq!(injured.bytes(0), [1, 2], "nothing is left behind");
    }
}

#[test]
fn a_link_that_is_down_refuses_everything_and_heals() {
    let injured = Injured::by(LinkFaults::default());
    injured.panel.set(eight(), Condition { down: true, ..Condition::default() });
    let down =
        |result: Result<(), LinkError>| matches!(result, Err(LinkError::Down { node }) if node == eight());
    assert!(down(injured.remote.put(0, &[1])));
    assert!(down(injured.remote.get(0, &mut [0])));
    assert!(down(injured.remote.fetch_add_u32(0, 1).map(drop)));
    assert!(down(injured.remote.barrier()));
    assert_eq!(injured.injector.counts().refused, 4);
    injured.panel.set(eight(), Condition::default());
    injured.remote.put(0, &[1]).unwrap();
    assert_eq!(injured.bytes(0), [1]);
}

#[test]
fn a_detached_map_leads_nowhere_until_it_is_reattached() {
    let injured = Injured::by(LinkFaults::default());
    let map = injured.remote.map().unwrap();
    map.put(0, &[5]).unwrap();
    injured.remote.set_detached(true).unwrap();
    map.put(0, &[6]).unwrap();
    assert_eq!(injured.bytes(0), [5]);
    injured.remote.set_detached(false).unwrap();
    let mut seen = [0];
    map.get(0, &mut seen).unwrap();
    assert_eq!(seen, [5]);
}

#[test]
fn slowness_takes_at_least_its_time() {
    let delay_ns = 300_000;
    let injured = Injured::by(LinkFaults { delay_ns, ..LinkFaults::default() });
    let start = Instant::now();
    injured.remote.put(0, &[1]).unwrap();
    injured.remote.get(0, &mut [0]).unwrap();
    assert!(start.elapsed() >= Duration::from_nanos(2 * delay_ns));
    let injured = Injured::by(LinkFaults { rate_bytes_per_s: 4_000_000, ..LinkFaults::default() });
    let start = Instant::now();
    injured.remote.put(0, &[1; 4000]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(1));
}

#[test]
fn a_put_outside_of_the_memory_is_an_error_under_faults_too() {
    for faults in [
        LinkFaults { reorder_ppm: MILLION, ..LinkFaults::default() },
        LinkFaults { lose_ppm: MILLION, ..LinkFaults::default() },
    ] {
        let injured = Injured::by(faults);
        assert!(matches!(injured.remote.put(4090, &[0; 7]), Err(LinkError::OutOfRange { .. })));
    }
}
