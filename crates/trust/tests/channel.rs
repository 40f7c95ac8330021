//! Two ends in memory: who is believed, who is refused, and why.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proto::ids::NodeId;
use proto::time::Instant;
use proto::wire::program::Refusal;
use proto::wire::record::{RecordKind, frame};
use proto::wire::{decode, encode};
use rustls::pki_types::{CertificateDer, ServerName};
use trust::TrustError;
use trust::authority::{Authority, NODE_LIFE};
use trust::channel::{Channel, ChannelError, Event, HANDSHAKE_LIMIT, Purpose};
use trust::hosts::HostMap;
use trust::identity::Identity;
use trust::join::{JoinError, Joining, serve};
use trust::store::Store;
use trust::token::{self, Token, USUAL_LIFE};

const START: Instant = Instant::from_nanos(0);

fn node(id: u32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn address() -> SocketAddr {
    "10.0.0.1:7411".parse().unwrap()
}

struct Cluster {
    root: tempfile::TempDir,
    store: Store,
    authority: Authority,
}

impl Cluster {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        let authority = Authority::create(&store, "lab", SystemTime::now()).unwrap();
        Self { root, store, authority }
    }

    fn issued_at(&self, id: u32, now: SystemTime) -> Arc<Identity> {
        Identity::issue_here(&self.store, &self.authority, node(id), address(), now).unwrap();
        Arc::new(Identity::load(&self.store, node(id)).unwrap().unwrap())
    }

    fn identity(&self, id: u32) -> Arc<Identity> {
        self.issued_at(id, SystemTime::now())
    }

    fn token(&self, of: Option<u32>) -> Token {
        let expires = SystemTime::now() + USUAL_LIFE;
        token::issue(&self.store, self.authority.fingerprint(), of.map(node), expires).unwrap()
    }
}

/// What one side can send now.
fn sent(channel: &mut Channel) -> Vec<u8> {
    let mut bytes = Vec::new();
    channel.write_to(&mut bytes).unwrap();
    bytes
}

fn events(channel: &mut Channel) -> Vec<Event> {
    std::iter::from_fn(|| channel.next_event()).collect()
}

type Outcome = (Vec<Event>, Result<(), ChannelError>);

/// Carries bytes both ways, in pieces of that size, until nothing is said any more.
fn talk(ends: [&mut Channel; 2], piece: usize) -> [Outcome; 2] {
    let [a, b] = ends;
    let mut outcomes: [Outcome; 2] = [(Vec::new(), Ok(())), (Vec::new(), Ok(()))];
    loop {
        let from_a = sent(a);
        let from_b = sent(b);
        if from_a.is_empty() && from_b.is_empty() {
            return outcomes;
        }
        for (bytes, to, outcome) in [(from_a, &mut *b, 1), (from_b, &mut *a, 0)] {
            for piece in bytes.chunks(piece) {
                let outcome: &mut Outcome = outcomes.get_mut(outcome).unwrap();
                if outcome.1.is_ok() {
                    outcome.1 = to.received(piece);
                }
                outcome.0.extend(events(to));
            }
        }
    }
}

fn pair(dialling: &Identity, to: u32, accepting: &Arc<Identity>) -> (Channel, Channel) {
    (Channel::dial(dialling, node(to), START).unwrap(), Channel::accept(accepting, START))
}

#[test]
fn both_ends_learn_who_the_other_is_and_records_arrive() {
    let cluster = Cluster::new();
    let (four, eight) = (cluster.identity(4), cluster.identity(8));
    for piece in [1, 7, 16 * 1024] {
        let (mut dialled, mut accepted) = pair(&eight, 4, &four);
        assert_eq!(accepted.limit(), Some(START + HANDSHAKE_LIMIT));
        let [ours, theirs] = talk([&mut dialled, &mut accepted], piece);
        assert_eq!((theirs.0, theirs.1), (vec![Event::Peer(node(8))], Ok(())));
        assert_eq!((ours.0, dialled.limit()), (vec![], Some(START + HANDSHAKE_LIMIT)), "not yet accepted");
        accepted.send(RecordKind::Hosts, b"first").unwrap();
        let long = vec![5; proto::wire::MAX_DATAGRAM_BYTES];
        dialled.send(RecordKind::Message, &long).unwrap();
        dialled.send(RecordKind::Message, b"x").unwrap();
        assert_eq!(dialled.queued_bytes(), long.len() + 1 + 10);
        let [ours, theirs] = talk([&mut dialled, &mut accepted], piece);
        assert_eq!(dialled.queued_bytes(), 0);
        assert_eq!(ours.0.first(), Some(&Event::Peer(node(4))));
        let bodies = |events: Vec<Event>| -> Vec<Vec<u8>> {
            let body = |event| match event {
                Event::Record(record) => Some(record.body),
                _ => None,
            };
            events.into_iter().filter_map(body).collect()
        };
        assert_eq!(bodies(ours.0), [b"first".to_vec()]);
        assert_eq!(bodies(theirs.0), [long, b"x".to_vec()]);
        assert_eq!((dialled.limit(), accepted.limit()), (None, None));
    }
}

#[test]
fn a_node_of_another_authority_is_refused_at_either_end() {
    let (ours, theirs) = (Cluster::new(), Cluster::new());
    let (mut dialled, mut accepted) = pair(&ours.identity(8), 4, &theirs.identity(4));
    let [dialler, _] = talk([&mut dialled, &mut accepted], 4096);
    assert_eq!(dialler.1, Err(ChannelError::WrongAuthority));

    // One that does not look at whom it talks to is refused by the other end.
    let wrong = theirs.identity(8);
    let config = stranger(&ours, Some(&wrong));
    let mut accepted = Channel::accept(&ours.identity(4), START);
    let (events, refused, said) = push(config, &mut accepted);
    assert_eq!((events, refused), (vec![], Err(ChannelError::WrongAuthority)));
    assert!(said.starts_with("AlertReceived"), "{said}");
}

#[test]
fn a_manager_without_a_certificate_is_refused() {
    let cluster = Cluster::new();
    for purpose in ["tieline-peer/1", "tieline-renew/1"] {
        let mut accepted = Channel::accept(&cluster.identity(4), START);
        let mut config = stranger(&cluster, None);
        config.alpn_protocols = vec![purpose.into()];
        let (events, refused, _) = push(config, &mut accepted);
        assert_eq!(events, []);
        assert!(matches!(refused, Err(ChannelError::Tls(_))), "{refused:?}");
    }
}

/// A client that believes the authority and shows the certificate of somebody else's cluster, or none.
fn stranger(believes: &Cluster, shows: Option<&Arc<Identity>>) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(believes.authority.certificate().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shows {
        None => config.with_no_client_auth(),
        Some(_) => {
            let other = Cluster::new();
            other.identity(8);
            let read = |name: &str| std::fs::read(other.root.path().join("c").join(name)).unwrap();
            let key = rustls::pki_types::PrivatePkcs8KeyDer::from(read("node-8.key"));
            config.with_client_auth_cert(vec![CertificateDer::from(read("node-8.crt"))], key.into()).unwrap()
        }
    };
    config.alpn_protocols = vec![b"tieline-peer/1".to_vec()];
    config
}

/// Lets such a client talk to an end; what came, how it ended, and what the client was told.
fn push(
    config: rustls::ClientConfig,
    accepted: &mut Channel,
) -> (Vec<Event>, Result<(), ChannelError>, String) {
    let name = ServerName::try_from("node-4.tieline.invalid").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let (mut came, mut outcome, mut told) = (Vec::new(), Ok(()), String::new());
    loop {
        let mut out = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut out).unwrap();
        }
        let quiet = out.is_empty();
        for piece in out.chunks(16 * 1024) {
            if outcome.is_ok() {
                outcome = accepted.received(piece);
            }
            came.extend(events(accepted));
        }
        let answer = sent(accepted);
        if quiet && answer.is_empty() {
            return (came, outcome, told);
        }
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            if let Err(error) = client.process_new_packets() {
                told = format!("{error:?}");
            }
        }
    }
}

#[test]
fn another_node_than_the_one_that_was_dialled_is_refused() {
    let cluster = Cluster::new();
    let (mut dialled, mut accepted) = pair(&cluster.identity(12), 4, &cluster.identity(8));
    let [dialler, _] = talk([&mut dialled, &mut accepted], 4096);
    assert_eq!(dialler.1, Err(ChannelError::WrongNode(node(4))));
}

#[test]
fn a_certificate_that_has_expired_is_refused_at_either_end() {
    let cluster = Cluster::new();
    let long_ago = SystemTime::now() - NODE_LIFE - Duration::from_secs(86_400);
    let (old, new) = (cluster.issued_at(8, long_ago), cluster.identity(4));
    let (mut dialled, mut accepted) = pair(&new, 8, &old);
    assert_eq!(talk([&mut dialled, &mut accepted], 4096)[0].1, Err(ChannelError::WrongTime));
    let (mut dialled, mut accepted) = pair(&old, 4, &new);
    let [dialler, acceptor] = talk([&mut dialled, &mut accepted], 4096);
    assert_eq!(acceptor, (vec![], Err(ChannelError::WrongTime)));
    let refused = dialler.1.unwrap_err();
    assert!(matches!(refused, ChannelError::Refused(_)), "{refused:?}");
    assert_eq!(dialler.0, [], "it never counted as connected");
}

#[test]
fn what_is_not_tls_is_refused_and_nothing_is_kept_for_it() {
    let cluster = Cluster::new();
    let four = cluster.identity(4);
    let hello = frame(RecordKind::Message, b"TLN1 in plain text").unwrap();
    for garbage in
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".as_slice(), b"SSH-2.0-x\r\n", &[0; 100], &[0xff; 5000], &hello]
    {
        let mut accepted = Channel::accept(&four, START);
        let refused = accepted.received(garbage).unwrap_err();
        assert!(matches!(refused, ChannelError::NotTls(_) | ChannelError::Tls(_)), "{refused:?}");
        assert_eq!(events(&mut accepted), []);
        // Whatever comes after that.
        assert_eq!(accepted.received(garbage), Ok(()));
        assert_eq!(events(&mut accepted), []);
    }
}

#[test]
fn who_says_one_byte_a_minute_is_never_done_with_the_handshake() {
    let cluster = Cluster::new();
    let (mut dialled, mut accepted) = pair(&cluster.identity(8), 4, &cluster.identity(4));
    let hello = sent(&mut dialled);
    for byte in &hello[..hello.len() - 1] {
        accepted.received(&[*byte]).unwrap();
        assert!(sent(&mut accepted).is_empty());
        assert_eq!(accepted.limit(), Some(START + HANDSHAKE_LIMIT), "time does not begin anew");
    }
}

/// What comes of one attempt to join, with the store of the new host.
fn try_to_join(
    cluster: &Cluster,
    token: Token,
    asked: Option<u32>,
    home: &tempfile::TempDir,
) -> Result<NodeId, JoinError> {
    let mut joining = Joining::begin(token, asked.map(node), address(), START).unwrap();
    let mut accepted = Channel::accept(&cluster.identity(4), START);
    let [us, them] = talk([&mut joining.channel, &mut accepted], 4096);
    us.1?;
    assert_eq!(accepted.purpose(), Purpose::Join);
    let [Event::Joiner, Event::Record(request)] = them.0.as_slice() else { panic!("{:?}", them.0) };
    let (answer, _) = serve(&cluster.store, &request.body, SystemTime::now());
    accepted.send(RecordKind::Join, &answer).unwrap();
    let [us, _] = talk([&mut joining.channel, &mut accepted], 4096);
    let [Event::Record(answer)] = us.0.as_slice() else { panic!("{:?}", us.0) };
    joining.finish(&answer.body, |name| Store::create(&home.path().join(name))).map(|(node, ..)| node)
}

#[test]
fn a_token_lets_one_node_in_once() {
    let cluster = Cluster::new();
    let mut hosts = HostMap::default();
    hosts.set(node(4), address());
    hosts.save(&cluster.store).unwrap();
    let home = tempfile::tempdir().unwrap();
    let token = cluster.token(None);
    assert_eq!(try_to_join(&cluster, token.clone(), None, &home).unwrap(), node(8));
    let store = Store::open(&home.path().join("lab")).unwrap().unwrap();
    assert!(!Authority::is_in(&store), "the authority's key stays where it is");
    assert_eq!(HostMap::load(&store).unwrap().nodes().collect::<Vec<_>>(), [node(4), node(8)]);
    let joined = Arc::new(Identity::load(&store, node(8)).unwrap().unwrap());
    let (mut dialled, mut accepted) = pair(&joined, 4, &cluster.identity(4));
    assert_eq!(talk([&mut dialled, &mut accepted], 4096)[1].0, [Event::Peer(node(8))]);

    let refused = |token, asked| try_to_join(&cluster, token, asked, &home).unwrap_err().to_string();
    assert!(refused(token, None).contains("used already"));
    assert!(refused(cluster.token(Some(12)), Some(16)).contains("for node 12, not for node 16"));
    assert!(refused(cluster.token(None), Some(8)).contains("node 8 has a certificate already"));
    // The authority's user decides that the node gets another certificate.
    assert_eq!(try_to_join(&cluster, cluster.token(Some(8)), None, &home).unwrap(), node(8));
}

/// The list of hosts is written by every manager of the authority's host, and may lack who has just joined.
#[test]
fn a_node_gets_no_second_certificate_because_the_list_of_hosts_lacks_it() {
    let cluster = Cluster::new();
    let home = tempfile::tempdir().unwrap();
    let mut stale = HostMap::default();
    stale.set(node(4), address());
    stale.save(&cluster.store).unwrap();
    assert_eq!(try_to_join(&cluster, cluster.token(None), None, &home).unwrap(), node(8));
    stale.save(&cluster.store).unwrap();
    let error = try_to_join(&cluster, cluster.token(None), Some(8), &home).unwrap_err().to_string();
    assert!(error.contains("node 8 has a certificate already"), "{error}");
    assert_eq!(try_to_join(&cluster, cluster.token(None), None, &home).unwrap(), node(12));
}

#[test]
fn a_full_list_of_hosts_lets_nobody_in_and_costs_no_token() {
    let cluster = Cluster::new();
    let home = tempfile::tempdir().unwrap();
    let mut full = HostMap::default();
    let mut ids = (0..).map_while(|index| NodeId::nth(index).ok());
    while !full.is_full() {
        full.set(ids.next().unwrap(), address());
    }
    full.save(&cluster.store).unwrap();
    let (token, free) = (cluster.token(None), ids.next().unwrap());
    for asked in [None, Some(free.get())] {
        let error = try_to_join(&cluster, token.clone(), asked, &home).unwrap_err().to_string();
        assert!(error.contains("its maximum of hosts"), "{error}");
    }
    HostMap::default().save(&cluster.store).unwrap();
    assert_eq!(try_to_join(&cluster, token, Some(free.get()), &home).unwrap(), free);
}

/// What stands in the way here stands for a disk that is full.
#[test]
fn an_authority_that_cannot_write_costs_no_token() {
    let cluster = Cluster::new();
    let home = tempfile::tempdir().unwrap();
    let token = cluster.token(None);
    let in_the_way = cluster.root.path().join("c/issued");
    std::fs::write(&in_the_way, "").unwrap();
    let error = try_to_join(&cluster, token.clone(), None, &home).unwrap_err().to_string();
    assert!(error.contains("see the log of its node manager"), "{error}");
    std::fs::remove_file(&in_the_way).unwrap();
    assert_eq!(try_to_join(&cluster, token, Some(8), &home).unwrap(), node(8));
}

#[test]
fn who_joins_does_not_tell_its_secret_to_another_authority() {
    let (real, false_one) = (Cluster::new(), Cluster::new());
    let home = tempfile::tempdir().unwrap();
    let error = try_to_join(&false_one, real.token(None), None, &home).unwrap_err();
    assert!(matches!(error, JoinError::Channel(ChannelError::WrongAuthority)), "{error:?}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

/// What comes back to who joins.
#[derive(serde::Serialize, serde::Deserialize)]
struct Welcome {
    node: NodeId,
    cluster: String,
    certificate: Vec<u8>,
    hosts: Vec<u8>,
}

/// Any node of the cluster has a certificate with which it can answer those who join.
#[test]
fn who_joins_keeps_only_what_the_authority_issued_for_its_key_and_node() {
    let (cluster, other, home) = (Cluster::new(), Cluster::new(), tempfile::tempdir().unwrap());
    let forged = |asked: Option<u32>, forge: &dyn Fn(&mut Welcome)| {
        let token = cluster.token(None);
        let mut joining = Joining::begin(token, asked.map(node), address(), START).unwrap();
        let mut accepted = Channel::accept(&cluster.identity(4), START);
        let [_, them] = talk([&mut joining.channel, &mut accepted], 4096);
        let [Event::Joiner, Event::Record(request)] = them.0.as_slice() else { panic!("{:?}", them.0) };
        let (answer, _) = serve(&cluster.store, &request.body, SystemTime::now());
        let answer: Result<Welcome, Refusal> = decode(&answer).unwrap();
        let mut welcome = answer.unwrap();
        forge(&mut welcome);
        let answer = encode(&Ok::<_, Refusal>(welcome)).unwrap();
        let place = |_: &str| Store::create(&home.path().join("kept"));
        let error = joining.finish(&answer, place).map(|(node, ..)| node).unwrap_err();
        assert!(!home.path().join("kept").exists(), "something was kept after: {error}");
        assert!(matches!(error, JoinError::NotIssued(_)), "{error:?}");
        error.to_string()
    };
    let any_key = [7; 32];
    let issue = |authority: &Authority, id| authority.issue(node(id), any_key, SystemTime::now()).unwrap();
    let said =
        forged(None, &|welcome| welcome.certificate = issue(&cluster.authority, welcome.node.get()).to_vec());
    assert!(said.contains("for another key"), "{said}");
    let said = forged(None, &|welcome| welcome.node = node(400));
    assert!(said.contains("another node"), "{said}");
    let said = forged(Some(16), &|welcome| {
        (welcome.node, welcome.certificate) = (node(20), issue(&cluster.authority, 20).to_vec());
    });
    assert!(said.contains("another node"), "{said}");
    // The same node and the same key, of another authority with the same name.
    let said = forged(None, &|welcome| {
        let key = key_of(&welcome.certificate);
        welcome.certificate = other.authority.issue(welcome.node, key, SystemTime::now()).unwrap().to_vec();
    });
    assert!(said.contains("has not signed it"), "{said}");
    let said = forged(None, &|welcome| {
        let (key, long_ago) = (key_of(&welcome.certificate), SystemTime::now() - 2 * NODE_LIFE);
        welcome.certificate = cluster.authority.issue(welcome.node, key, long_ago).unwrap().to_vec();
    });
    assert!(said.contains("not valid at this time"), "{said}");
}

/// The Ed25519 key that a certificate is for.
fn key_of(certificate: &[u8]) -> [u8; 32] {
    // The algorithm's number, and a string of 33 bytes without unused bits.
    let before = [0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let at = certificate.windows(before.len()).position(|bytes| bytes == before).unwrap() + before.len();
    certificate[at..at + 32].try_into().unwrap()
}

#[test]
fn a_host_without_the_authoritys_key_lets_nobody_in() {
    let cluster = Cluster::new();
    let home = tempfile::tempdir().unwrap();
    let store = Store::create(&home.path().join("x")).unwrap();
    let (answer, outcome) = serve(&store, b"anything", SystemTime::now());
    assert!(matches!(outcome, Err(TrustError::NoAuthority { .. })));
    let path = home.path().display().to_string();
    assert!(!String::from_utf8_lossy(&answer).contains(&path), "a stranger learns no path");
    let (_, outcome) = serve(&cluster.store, b"anything", SystemTime::now());
    assert!(matches!(outcome, Err(TrustError::Crypto { .. })));
}

/// Nothing that follows a closing belongs to the connection, and it holds nobody up: this side needs no
/// certificate.
#[test]
fn what_follows_a_closing_is_passed_over() {
    let cluster = Cluster::new();
    let four = cluster.identity(4);
    let mut joining = Joining::begin(cluster.token(None), None, address(), START).unwrap();
    let mut accepted = Channel::accept(&four, START);
    let [_, theirs] = talk([&mut joining.channel, &mut accepted], 16 * 1024);
    assert!(theirs.0.contains(&Event::Joiner), "{theirs:?}");
    joining.channel.close();
    let closing = sent(&mut joining.channel);
    assert!(!closing.is_empty());
    accepted.received(&closing).unwrap();
    for more in [&[0; 100][..], b"GET / HTTP/1.1\r\n\r\n"] {
        accepted.received(more).unwrap();
    }
    assert_eq!(events(&mut accepted), []);
}
