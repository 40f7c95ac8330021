//! A node renews its certificate: who gets one, what is kept, and who is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proto::ids::NodeId;
use proto::time::Instant;
use proto::wire::encode;
use proto::wire::program::Refusal;
use proto::wire::record::RecordKind;
use trust::TrustError;
use trust::authority::{Authority, NODE_LIFE};
use trust::channel::{Channel, Event, Purpose};
use trust::identity::Identity;
use trust::join::Joining;
use trust::leave::Leaving;
use trust::renew::{RenewError, Renewing, renew_here, serve};
use trust::store::Store;
use trust::token;

const START: Instant = Instant::from_nanos(0);
const DAY: Duration = Duration::from_secs(86_400);

fn node(id: u32) -> NodeId {
    NodeId::new(id).unwrap()
}

/// The authority's host, and another one with node 8, each with its directory.
struct Cluster {
    root: tempfile::TempDir,
    store: Store,
    authority: Authority,
    other: Store,
}

impl Cluster {
    /// Node 8 has had its certificate for so long.
    fn new(age: Duration) -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("a")).unwrap();
        let other = Store::create(&root.path().join("b")).unwrap();
        let authority = Authority::create(&store, "lab", SystemTime::now()).unwrap();
        let address: SocketAddr = "10.0.0.1:7411".parse().unwrap();
        Identity::issue_here(&store, &authority, node(4), address, SystemTime::now()).unwrap();
        Identity::issue_here(&other, &authority, node(8), address, SystemTime::now() - age).unwrap();
        for name in ["cluster", "authority.crt"] {
            std::fs::copy(root.path().join("a").join(name), root.path().join("b").join(name)).unwrap();
        }
        Self { root, store, authority, other }
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.root.path().join(name)).unwrap()
    }

    fn accepting(&self) -> Channel {
        Channel::accept(&Arc::new(Identity::load(&self.store, node(4)).unwrap().unwrap()), START)
    }

    /// Node 8 has asked; its end, the authority's end, and the request.
    fn asked(&self) -> (Renewing, Channel, Vec<u8>) {
        let mut renewing = Renewing::begin(self.other.clone(), node(8), START).unwrap();
        let mut accepted = self.accepting();
        let came = talk(&mut renewing.channel, &mut accepted);
        assert_eq!(accepted.purpose(), Purpose::Renew);
        let [Event::Renewer(who), Event::Record(request)] = came.as_slice() else { panic!("{came:?}") };
        assert_eq!((*who, request.kind), (node(8), RecordKind::Join));
        (renewing, accepted, request.body.clone())
    }
}

/// Carries bytes both ways until nothing is said any more; what came at the second end.
fn talk(a: &mut Channel, b: &mut Channel) -> Vec<Event> {
    let mut came = Vec::new();
    loop {
        let (mut from_a, mut from_b) = (Vec::new(), Vec::new());
        a.write_to(&mut from_a).unwrap();
        b.write_to(&mut from_b).unwrap();
        if from_a.is_empty() && from_b.is_empty() {
            return came;
        }
        for piece in from_a.chunks(4096) {
            b.received(piece).unwrap();
        }
        for piece in from_b.chunks(4096) {
            a.received(piece).unwrap();
        }
        came.extend(std::iter::from_fn(|| b.next_event()));
    }
}

#[test]
fn a_node_gets_a_new_certificate_for_its_key() {
    let cluster = Cluster::new(NODE_LIFE - DAY);
    let (key, before) = (cluster.file("b/node-8.key"), cluster.file("b/node-8.crt"));
    let (renewing, accepted, request) = cluster.asked();
    let (answer, outcome) = serve(&cluster.store, &accepted, &request, SystemTime::now());
    assert_eq!(outcome.unwrap(), node(8));
    renewing.finish(&answer).unwrap();
    assert_eq!(cluster.file("b/node-8.key"), key);
    assert_ne!(cluster.file("b/node-8.crt"), before);
    assert_eq!(std::fs::read_dir(cluster.root.path().join("b")).unwrap().count(), 5, "nothing else is left");
    let renewed = Identity::load(&cluster.other, node(8)).unwrap().unwrap();
    let mut dialled = Channel::dial(&renewed, node(4), START).unwrap();
    assert_eq!(talk(&mut dialled, &mut cluster.accepting()), [Event::Peer(node(8))]);
}

#[test]
fn a_certificate_that_has_expired_renews_nothing_but_at_the_authority() {
    let cluster = Cluster::new(NODE_LIFE + DAY);
    let error = Renewing::begin(cluster.other.clone(), node(8), START).unwrap_err();
    assert!(matches!(error, RenewError::NoProof { .. }), "{error:?}");
    assert!(error.to_string().contains("tieline cluster token --node 8"), "{error}");
    let error = Renewing::begin(cluster.other.clone(), node(12), START).unwrap_err().to_string();
    assert!(error.contains("node 12 has no certificate in"), "{error}");
    // Its user has the authority's key, and so needs no proof.
    let long_ago = SystemTime::now() - 2 * NODE_LIFE;
    let address = "10.0.0.1:7411".parse().unwrap();
    Identity::issue_here(&cluster.store, &cluster.authority, node(4), address, long_ago).unwrap();
    renew_here(&cluster.store, node(4), SystemTime::now()).unwrap();
    Renewing::begin(cluster.store.clone(), node(4), START).unwrap();
    let elsewhere = renew_here(&cluster.other, node(8), SystemTime::now());
    assert!(matches!(elsewhere, Err(TrustError::NoAuthority { .. })));
}

#[test]
fn nobody_gets_the_certificate_of_another_node_or_without_a_proof() {
    let cluster = Cluster::new(DAY);
    let (_renewing, accepted, _) = cluster.asked();
    let asked = encode(&node(12)).unwrap();
    let (answer, outcome) = serve(&cluster.store, &accepted, &asked, SystemTime::now());
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("node 8 asked for a certificate of node 12"), "{error}");
    assert!(!answer.windows(8).any(|bytes| bytes == b"node 12."), "the other side learns nothing");
    // Who joins has proved nothing.
    let expires = SystemTime::now() + DAY;
    let token = token::issue(&cluster.store, cluster.authority.fingerprint(), None, expires).unwrap();
    let mut joining = Joining::begin(token, None, "10.0.0.2:7411".parse().unwrap(), START).unwrap();
    let mut accepted = cluster.accepting();
    talk(&mut joining.channel, &mut accepted);
    let asked = encode(&node(8)).unwrap();
    let error = serve(&cluster.store, &accepted, &asked, SystemTime::now()).1.unwrap_err().to_string();
    assert!(error.contains("it came from nobody"), "{error}");
}

#[test]
fn a_host_without_the_authoritys_key_says_so() {
    let cluster = Cluster::new(DAY);
    let (renewing, accepted, request) = cluster.asked();
    let (answer, outcome) = serve(&cluster.other, &accepted, &request, SystemTime::now());
    assert!(matches!(outcome, Err(TrustError::NoAuthority { .. })));
    let error = renewing.finish(&answer).unwrap_err();
    assert!(matches!(error, RenewError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("`tieline cluster init`"), "{error}");
}

#[test]
fn only_what_the_authority_issued_for_the_node_and_its_key_takes_the_old_ones_place() {
    let (cluster, stranger) = (Cluster::new(DAY), Cluster::new(DAY));
    let now = SystemTime::now();
    let own_key = {
        // The last 32 bytes of an Ed25519 key in a certificate come after its algorithm and length.
        let (certificate, before) =
            (cluster.file("b/node-8.crt"), [0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]);
        let at = certificate.windows(8).position(|bytes| bytes == before).unwrap() + 8;
        <[u8; 32]>::try_from(&certificate[at..at + 32]).unwrap()
    };
    let issue = |authority: &Authority, id, key, now| authority.issue(node(id), key, now).unwrap().to_vec();
    for (certificate, why) in [
        (issue(&cluster.authority, 12, own_key, now), "another node"),
        (issue(&cluster.authority, 8, [7; 32], now), "another key"),
        (issue(&stranger.authority, 8, own_key, now), "has not signed it"),
        (issue(&cluster.authority, 8, own_key, now - 2 * NODE_LIFE), "not valid at this time"),
        (b"no certificate".to_vec(), "another node"),
    ] {
        let before = cluster.file("b/node-8.crt");
        let (renewing, ..) = cluster.asked();
        let answer = encode(&Ok::<_, Refusal>(certificate)).unwrap();
        let error = renewing.finish(&answer).unwrap_err();
        assert!(matches!(error, RenewError::NotIssued(_)), "{error:?}");
        assert!(error.to_string().contains(why), "{error} lacks {why}");
        assert_eq!(cluster.file("b/node-8.crt"), before);
    }
    let (renewing, ..) = cluster.asked();
    assert!(matches!(renewing.finish(b"\xff\xff"), Err(RenewError::Unreadable(_))));
}

#[test]
fn nobody_lets_another_node_leave() {
    let cluster = Cluster::new(DAY);
    let store = || cluster.other.clone();
    let mut leaving = Leaving::begin(store(), node(8), START).unwrap();
    let mut accepted = cluster.accepting();
    let came = talk(&mut leaving.channel, &mut accepted);
    let [Event::Leaver(who), Event::Record(request)] = came.as_slice() else { panic!("{came:?}") };
    assert_eq!((*who, accepted.purpose()), (node(8), Purpose::Leave));
    let other = encode(&node(12)).unwrap();
    let leave = |asked: &[u8], channel: &Channel| {
        trust::leave::serve(&cluster.store, channel, asked, SystemTime::now())
    };
    let error = leave(&other, &accepted).1.unwrap_err().to_string();
    assert!(error.contains("node 8 asked to let node 12 leave"), "{error}");
    // A connection that is for something else is no proof.
    let (_renewing, for_renewal, _) = cluster.asked();
    let error = leave(&request.body, &for_renewal).1.unwrap_err().to_string();
    assert!(error.contains("it came from nobody"), "{error}");
    let refused = encode(&Err::<(), _>(Refusal::Invalid("no".to_owned()))).unwrap();
    assert!(Leaving::begin(store(), node(8), START).unwrap().finish(&refused).is_err());
    assert!(Identity::load(&cluster.other, node(8)).unwrap().is_some(), "nothing was removed");
}
