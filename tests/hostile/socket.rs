//! Hostile programs on the control sockets.

use std::os::fd::OwnedFd;
use std::time::Duration;

use node_client::{AttachOptions, Client, ClientError};
use proto::ids::{SegmentId, SegmentKey};
use proto::wire::program::{Access, Refusal};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use tieline_tests::{Cluster, Random, Watchdog};

fn dial(cluster: &Cluster, file: &str) -> OwnedFd {
    let address = SocketAddrUnix::new(cluster.cluster_dir().join(file)).unwrap();
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    socket
}

fn errors(cluster: &Cluster) -> u64 {
    cluster.attach(0).unwrap().status().unwrap().counters.protocol_errors
}

#[test]
fn garbage_on_either_socket_harms_nobody_else() {
    let _watchdog = Watchdog::usual("garbage");
    let cluster = Cluster::up(2).unwrap();
    let node = cluster.attach(0).unwrap();
    let segment = node.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let mut random = Random::new("garbage");
    let before = errors(&cluster);
    for round in 0..200 {
        let socket = dial(&cluster, if round % 2 == 0 { "node-4.sock" } else { "node-4.peer" });
        let mut datagram: Vec<u8> = (0..1 + random.below(300)).map(|_| random.draw() as u8).collect();
        if round % 3 == 0 {
            // Past the magic and the version, so that the decoder itself is reached.
            datagram
                .splice(0..0, [b"TLN1".as_slice(), &proto::wire::PROTOCOL_VERSION.to_le_bytes()].concat());
        }
        let _ = rustix::net::send(&socket, &datagram, SendFlags::NOSIGNAL);
    }
    // Everybody else is served as before.
    let remote = cluster.attach(1).unwrap().connect_segment(node.id(), SegmentId(1), Duration::ZERO).unwrap();
    remote.put(0, b"ok").unwrap();
    assert!(errors(&cluster) > before, "malformed messages must be counted");
}

#[test]
fn another_version_is_answered_with_both_versions() {
    let _watchdog = Watchdog::usual("version");
    let cluster = Cluster::up(1).unwrap();
    let socket = dial(&cluster, "node-4.sock");
    rustix::net::send(&socket, b"TLN1\xff\x7f whatever comes then", SendFlags::NOSIGNAL).unwrap();
    let mut answer = vec![0; 4096];
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()).unwrap();
    let answer: proto::wire::program::ToProgram = proto::wire::decode(&answer[..len]).unwrap();
    let proto::wire::program::ToProgram::Rejected(refusal) = answer else { panic!("{answer:?}") };
    assert_eq!(refusal, Refusal::Version { theirs: 0x7fff, ours: proto::wire::PROTOCOL_VERSION });
    assert!(refusal.to_string().contains("install the same tieline"), "{refusal}");
}

#[test]
fn a_program_that_floods_and_never_reads_is_cut_off() {
    let _watchdog = Watchdog::usual("flood");
    let cluster = Cluster::up(1).unwrap();
    let attach = AttachOptions {
        runtime_dir: Some(cluster.runtime_dir().into()),
        cluster: Some(cluster.name().into()),
        ..AttachOptions::default()
    };
    let good = Client::attach(&attach, |_| ()).unwrap();
    let idle: Vec<OwnedFd> = (0..64).map(|_| dial(&cluster, "node-4.sock")).collect();
    let socket = dial(&cluster, "node-4.sock");
    let datagram = [b"TLN1".as_slice(), &proto::wire::PROTOCOL_VERSION.to_le_bytes(), &[1, 1, 14]].concat();
    for _ in 0..10_000 {
        // Cut off sooner or later, or simply ignored: what counts is that the others are served.
        if rustix::net::send(&socket, &datagram, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
            break;
        }
    }
    good.status().unwrap();
    drop(idle);
    Client::attach(&attach, |_| ()).unwrap();
}

#[test]
fn memory_that_its_owner_could_shrink_is_refused() {
    let _watchdog = Watchdog::usual("unsealed");
    let cluster = Cluster::up(1).unwrap();
    let attach = AttachOptions {
        runtime_dir: Some(cluster.runtime_dir().into()),
        cluster: Some(cluster.name().into()),
        ..AttachOptions::default()
    };
    let client = Client::attach(&attach, |_| ()).unwrap();
    let key = SegmentKey::Segment(SegmentId(1));
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("unsealed", flags).unwrap();
    rustix::fs::ftruncate(&memory, 4096).unwrap();
    let refused = client.create_segment(key, 4096, Access::default(), std::os::fd::AsFd::as_fd(&memory));
    assert!(matches!(refused, Err(ClientError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    let sealed = shm::region::Region::create(&shm::region::RegionOptions::new("small", 4096)).unwrap();
    let refused = client.create_segment(key, 1 << 30, Access::default(), sealed.fd());
    assert!(matches!(refused, Err(ClientError::Refused(Refusal::Invalid(_)))), "{refused:?}");
    client.create_segment(key, 4096, Access::default(), sealed.fd()).unwrap();
}
