use std::time::SystemTime;

use super::*;
use crate::authority::{Authority, NODE_LIFE, begin_of, seconds};
use crate::error::TrustError;
use crate::identity::Identity;
use crate::revocations::{FILE, Revocations};
use crate::revoke::{Outcome, revoke};
use crate::store::Store;

fn node(id: u32) -> NodeId {
    NodeId::new(id).unwrap()
}

struct Cluster {
    root: tempfile::TempDir,
    store: Store,
    authority: Authority,
}

impl Cluster {
    /// The authority's host has node 4; 8 and 12 have been given certificates.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        let authority = Authority::create(&store, "lab", SystemTime::now()).unwrap();
        Identity::issue_here(&store, &authority, node(4), "10.0.0.1:1".parse().unwrap(), SystemTime::now())
            .unwrap();
        store.make_dir("issued").unwrap();
        for id in [8, 12] {
            store.write(&format!("issued/{id}"), b"").unwrap();
        }
        Self { root, store, authority }
    }

    fn file(&self) -> Vec<u8> {
        self.store.read(FILE).unwrap().unwrap()
    }

    fn revoke(&self, id: u32) -> Outcome {
        revoke(&self.store, node(id), SystemTime::now()).unwrap()
    }

    fn issue(&self, id: u32, now: SystemTime) -> CertificateDer<'static> {
        self.authority.issue(node(id), [7; 32], now).unwrap()
    }

    fn read(&self, bytes: &[u8]) -> Result<RevocationList, ListError> {
        RevocationList::from_bytes(bytes, self.authority.certificate())
    }
}

#[test]
fn all_certificates_issued_until_then_are_refused_and_later_ones_are_not() {
    let cluster = Cluster::new();
    let now = SystemTime::now();
    let before = [
        cluster.issue(8, now),
        cluster.issue(8, now - NODE_LIFE / 2),
        cluster.issue(8, now - Duration::from_secs(1)),
    ];
    let other = cluster.issue(12, now);
    assert_eq!(revoke(&cluster.store, node(8), now).unwrap(), Outcome::Revoked);
    assert_eq!(revoke(&cluster.store, node(8), now).unwrap(), Outcome::Already);
    let list = cluster.read(&cluster.file()).unwrap();
    assert_eq!((list.version(), list.standing(node(8))), (1, Some(Standing::Revoked)));
    let own = cluster.authority.certificate();
    assert!(before.iter().all(|certificate| list.refuses(certificate, own)));
    assert!(!list.refuses(&other, own));
    // Within the same second, too.
    let (later, begin) = crate::issued::issue(&cluster.authority, &list, node(8), [7; 32], now).unwrap();
    assert!(!list.refuses(&later, own));
    assert_eq!(begin, seconds(begin_of(now)) + 1);
    // What cannot be judged is refused.
    let foreign = Cluster::new().issue(8, now);
    assert!(list.refuses(&foreign, own));
}

/// Whatever the authority's clock has done since.
#[test]
fn a_clock_that_was_put_back_does_not_save_a_certificate() {
    let cluster = Cluster::new();
    let now = SystemTime::now();
    let later = now + Duration::from_secs(7200);
    let list = RevocationList::default();
    let (certificate, begin) =
        crate::issued::issue(&cluster.authority, &list, node(8), [7; 32], later).unwrap();
    crate::issued::note(&cluster.store, node(8), begin).unwrap();
    revoke(&cluster.store, node(8), now).unwrap();
    let list = cluster.read(&cluster.file()).unwrap();
    assert!(list.refuses(&certificate, cluster.authority.certificate()));
}

#[test]
fn only_a_node_of_the_cluster_that_is_not_on_the_authoritys_host_is_revoked() {
    let cluster = Cluster::new();
    let now = SystemTime::now();
    assert!(matches!(revoke(&cluster.store, node(4), now), Err(TrustError::OwnNode { .. })));
    assert!(matches!(revoke(&cluster.store, node(16), now), Err(TrustError::UnknownNode { .. })));
    let elsewhere = Store::create(&cluster.root.path().join("d")).unwrap();
    assert!(matches!(revoke(&elsewhere, node(8), now), Err(TrustError::NoAuthority { .. })));
    assert!(cluster.store.read(FILE).unwrap().is_none());
    // Tokens that were made for it are gone, and only those.
    let token = |of| crate::token::issue(&cluster.store, cluster.authority.fingerprint(), of, now).unwrap();
    let (bound, other) = (token(Some(node(8))), token(Some(node(12))));
    cluster.revoke(8);
    let then = now - Duration::from_secs(60);
    let check = |token: &crate::token::Token| {
        crate::token::check(&cluster.store, token.id, token.secret, then).map(drop)
    };
    assert!(matches!(check(&bound), Err(TrustError::UnknownToken)));
    check(&other).unwrap();
}

#[test]
fn an_older_list_a_forged_one_and_that_of_another_cluster_are_not_taken() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    cluster.revoke(8);
    let old = cluster.file();
    cluster.revoke(12);
    let new = cluster.file();
    other.revoke(8);
    let member = Store::create(&cluster.root.path().join("member")).unwrap();
    member.write("authority.crt", cluster.authority.certificate()).unwrap();
    let list = Revocations::open(&member).unwrap();
    assert_eq!(list.offer(&old), Ok(true));
    assert_eq!((list.offer(&new), list.offer(&new), list.offer(&old)), (Ok(true), Ok(false), Ok(false)));
    assert_eq!(list.list().version(), 2);
    assert_eq!(list.offer(&other.file()), Err(ListError::OtherCluster));
    let text = String::from_utf8(new).unwrap();
    let newer = |text: &str| text.replace("version 2", "version 3");
    let without_entry: String = newer(&text)
        .lines()
        .filter(|line| !line.starts_with("12 "))
        .map(|line| format!("{line}\n"))
        .collect();
    let named: String = text.replace("12 ", "16 ").replace("version 2", "version 9");
    for forged in [newer(&text), without_entry, named] {
        assert_eq!(list.offer(forged.as_bytes()), Err(ListError::NotSigned), "{forged}");
    }
    // With the signature of the other authority.
    let theirs = String::from_utf8(other.file()).unwrap();
    let theirs = theirs
        .replace(&other.authority.fingerprint().to_string(), &cluster.authority.fingerprint().to_string());
    assert_eq!(list.offer(theirs.replace("version 1", "version 5").as_bytes()), Err(ListError::NotSigned));
    list.keep(&member).unwrap();
    assert_eq!(member.read(FILE).unwrap().unwrap(), text.as_bytes());
    // An older one does not take its place in the directory either.
    let late = Revocations::open(&Cluster::member_with(&cluster, &old)).unwrap();
    late.keep(&member).unwrap();
    assert_eq!(member.read(FILE).unwrap().unwrap(), text.as_bytes());
    assert!(late.reload(&member).unwrap());
}

impl Cluster {
    fn member_with(&self, list: &[u8]) -> Store {
        let member = Store::create(&self.root.path().join("late")).unwrap();
        member.write("authority.crt", self.authority.certificate()).unwrap();
        member.write(FILE, list).unwrap();
        member
    }
}

#[test]
fn a_list_that_is_cut_off_or_damaged_is_an_error_and_not_an_empty_list() {
    let cluster = Cluster::new();
    cluster.revoke(8);
    let whole = cluster.file();
    assert!(Identity::load(&cluster.store, node(4)).unwrap().is_some());
    for len in 0..whole.len() {
        assert!(cluster.read(&whole[..len]).is_err(), "{len} bytes");
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(cluster.read(&damaged).is_err(), "byte {at}");
    }
    for damaged in [&whole[..whole.len() / 2], b"", b"\xff\xff"] {
        cluster.store.write(FILE, damaged).unwrap();
        let error = Identity::load(&cluster.store, node(4)).unwrap_err();
        assert!(matches!(error, TrustError::Revocations { .. }), "{error:?}");
        assert!(error.to_string().contains("copy the file of this name from another host"), "{error}");
        assert!(revoke(&cluster.store, node(12), SystemTime::now()).is_err());
    }
    let twice = String::from_utf8(whole).unwrap();
    let (head, end) = twice.split_at(twice.find("8 ").unwrap());
    let entry = end.lines().next().unwrap();
    assert_eq!(
        cluster.read(format!("{head}{entry}\n{end}").as_bytes()),
        Err(ListError::Malformed("it is not in order"))
    );
}

#[test]
fn a_list_is_bounded_and_forgets_what_has_expired() {
    let cluster = Cluster::new();
    let sign = |list: RevocationList| {
        list.sign(cluster.authority.fingerprint(), |bytes| cluster.authority.sign(bytes)).unwrap()
    };
    let now = seconds(SystemTime::now());
    let mut list = RevocationList::default();
    for nth in 0..ENTRIES_MAX {
        list = list.with(NodeId::nth(nth).unwrap(), now, Standing::Readmitted, now).unwrap();
    }
    let full = sign(list);
    assert!(full.as_bytes().unwrap().len() <= LIST_BYTES_MAX);
    assert_eq!(cluster.read(full.as_bytes().unwrap()).as_ref(), Ok(&full));
    let more = NodeId::nth(ENTRIES_MAX).unwrap();
    assert!(full.with(more, now, Standing::Revoked, now).is_none());
    // A year later.
    let later = now + (LONGEST_LIFE + MARGIN).as_secs();
    assert_eq!(full.with(more, later, Standing::Revoked, later - 1), None);
    let next = full.with(more, later, Standing::Revoked, later).unwrap();
    assert_eq!((next.entries.len(), next.version()), (1, full.version() + 1));

    // Not even the authority can make others keep more.
    let mut text = format!("{TITLE}\nauthority {}\nversion 9\n", cluster.authority.fingerprint());
    for nth in 0..=ENTRIES_MAX {
        let _ = writeln!(text, "{} 1 left", NodeId::nth(nth).unwrap());
    }
    let text = format!("{text}{SIGNATURE}{}\n", "0".repeat(128));
    assert_eq!(cluster.read(text.as_bytes()), Err(ListError::TooLong));
    assert_eq!(cluster.read(&vec![b' '; LIST_BYTES_MAX + 1]), Err(ListError::TooLong));
}
