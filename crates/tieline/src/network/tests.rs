//! What becomes of the peers of a program when its segments end, and when their names are used again.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ofi::{Endpoint, MemoryCard, OfiError, Peer, Settings, Wanted, random_u64};
use proto::ids::{SegmentId, SegmentKey};
use proto::wire::program::Imported;
use shm::region::{Region, RegionOptions};

use super::ends::Role;
use super::{Network, Reachable};
use crate::events::{Queue, Registry};
use crate::segment::{SegmentEvent, SegmentMemory};

const BYTES: usize = 4096;
const PROVIDER: &str = "tcp;ofi_rxm";
const HERE: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)];
/// A failure may come before what it would end has begun.
const ROUNDS: u64 = 20;

fn named(id: u32) -> Imported {
    Imported::Segment(SegmentKey::Segment(SegmentId(id)))
}

fn memory() -> Arc<SegmentMemory> {
    let region = Region::create(&RegionOptions::new("network-test", BYTES)).unwrap();
    let descriptor = region.fd().try_clone_to_owned().unwrap();
    Arc::new(SegmentMemory::open(descriptor, BYTES as u64).unwrap())
}

/// The owner's end point and the importer's, on loopback.
fn ends(network: &Network) -> Result<(Endpoint, Endpoint), OfiError> {
    let own = network.ends.of_rails(Some(PROVIDER), &HERE, 1, (Role::Both, Role::Both))?.remove(0);
    let wanted = Wanted { provider: Some(PROVIDER.to_owned()), source: Some(HERE[0]), is_exact: true };
    Ok((own, Endpoint::open(&wanted, Settings::default())?))
}

/// An importer's connection: its end, and the owner's.
fn connection(own: &Endpoint, importer: &Endpoint) -> (Peer, Peer) {
    let session = random_u64().unwrap();
    let its = importer.connect("the owner", &own.card().unwrap(), session).unwrap();
    (its, own.connect("the importer", &importer.card().unwrap(), session).unwrap())
}

/// A segment that is offered, and what opens it.
fn offered(network: &Network, id: u32, own: &Endpoint) -> (Arc<SegmentMemory>, Arc<Reachable>, MemoryCard) {
    let memory = memory();
    let reachable = Reachable::new(&memory);
    network.offer(named(id), &reachable);
    let card = reachable.card_at(own).unwrap();
    (memory, reachable, card)
}

/// An importer puts to a segment until it has learned that it is gone: that ends nothing that it, or another
/// thread of its program, does with other segments of the same owner.
#[test]
fn puts_to_a_segment_that_was_just_removed_end_nothing_else() {
    let network = Arc::new(Network::default());
    let (own, importer) = match ends(&network) {
        Ok(ends) => ends,
        Err(error) => return println!("skipped: {error}"),
    };
    *network.worker.lock().unwrap() = network.begin_to_serve();
    let (stays, _kept, card) = offered(&network, 1, &own);
    let (lasting, _back) = connection(&own, &importer);
    lasting.reach(&card).unwrap();
    for round in 1..=ROUNDS {
        let (gone, reachable, its_card) = offered(&network, 2, &own);
        let (late, _back) = connection(&own, &importer);
        late.reach(&its_card).unwrap();
        network.take_back(named(2), &reachable);
        late.put(&its_card, 0, &round.to_ne_bytes()).unwrap();
        lasting.put(&card, 8, &round.to_ne_bytes()).unwrap();
        lasting.barrier().unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(stays.window().load_u64(8).unwrap(), round);
        late.barrier().unwrap();
        assert_eq!(gone.window().load_u64(0).unwrap(), round, "it is nobody's any more");
        // Messages are refused at once, by a reply.
        let refused = late.fetch_add_u64(&its_card, 0, 1).unwrap_err().to_string();
        assert!(refused.contains("no such memory"), "{refused}");
    }
}

/// The next segment of a number is created while another thread is still at the end of the one before.
#[test]
fn a_segment_whose_number_was_just_given_up_is_reached_and_gets_its_events() {
    let (network, registry) = (Network::default(), Arc::new(Registry::default()));
    let of_number = |network: &Network| network.segments.lock().unwrap().get(&named(7))?.upgrade();
    let (first, second) = (Reachable::new(&memory()), Reachable::new(&memory()));
    let (first_events, second_events) = (Arc::new(Queue::default()), Arc::new(Queue::default()));
    network.offer(named(7), &first);
    let registration = registry.register_segment(named(7), &first_events);
    // The manager has removed the first one, and has given the number out again.
    network.offer(named(7), &second);
    let next = registry.register_segment(named(7), &second_events);
    assert!(Arc::ptr_eq(&of_number(&network).unwrap(), &first), "a second one may be refused");
    network.settle(named(7), &second);
    next.settle();
    network.take_back(named(7), &first);
    drop((registration, first));
    assert!(Arc::ptr_eq(&of_number(&network).unwrap(), &second));
    let node = proto::ids::NodeId::new(4).unwrap();
    registry.dispatch(node_client::ClientEvent::Connected {
        what: named(7),
        node,
        connection: proto::wire::program::ConnectionId(1),
        producer: 0,
        sender: None,
    });
    let event = second_events.wait(Duration::ZERO, &|| "event".to_owned()).unwrap();
    assert_eq!(event, Some(SegmentEvent::Connected { node }));
    let of_first = first_events.wait(Duration::ZERO, &|| "event".to_owned()).unwrap();
    assert_eq!(of_first, None);
}

/// An end point that is closed, because its rail has failed, is not kept open by what was taken back.
#[test]
fn memory_that_was_taken_back_keeps_no_end_point_open_that_is_to_be_closed() {
    let network = Network::default();
    let (own, _) = match ends(&network) {
        Ok(ends) => ends,
        Err(error) => return println!("skipped: {error}"),
    };
    let (_memory, reachable, _) = offered(&network, 1, &own);
    let exported = network.at_open_ends(reachable.take_all());
    assert_eq!(exported.len(), 1);
    network.ends.remove(&own);
    assert!(network.at_open_ends(exported).is_empty());
}
