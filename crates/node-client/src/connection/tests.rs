//! What one thread finds when another thread listens, or the connection is lost.

use super::*;
use crate::runtime_dir::ClusterName;
use proto::ids::NodeId;

#[test]
fn a_fork_is_told_to_attach_for_itself() {
    let page = link::page::PageWriter::create(NodeId::new(4).unwrap(), 1).unwrap();
    let page = PageReader::open(page.fd().try_clone_to_owned().unwrap()).unwrap();
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let unix = rustix::net::AddressFamily::UNIX;
    let (ours, theirs) =
        rustix::net::socketpair(unix, rustix::net::SocketType::SEQPACKET, flags, None).unwrap();
    let info = NodeInfo {
        node: NodeId::new(4).unwrap(),
        cluster: "t".into(),
        host: String::new(),
        version: String::new(),
        manager_pid: 1,
        incarnation: 1,
        adapters: Vec::new(),
        faults: false,
        rails: Vec::new(),
    };
    let state = State {
        connection: Connection::Up(Arc::new(Seqpacket::from_fd(ours))),
        responsiveness: Responsiveness::default(),
        info,
        page: Arc::new(page),
        next_id: 0,
        pending: HashMap::new(),
        buffer: Some(vec![0; 100]),
        armed: false,
        registry: Registry::default(),
        events: VecDeque::new(),
        chores: VecDeque::new(),
        to_resume: VecDeque::new(),
        resume_until: None,
    };
    let dir = ClusterDir::new("/nowhere".into(), ClusterName::new("t").unwrap());
    let place = (dir, NodeId::new(4).unwrap(), "test".to_owned());
    let mut shared = Shared::new(place, state, Box::new(|_| {})).unwrap();
    // What a child sees: another process id than the one that attached.
    shared.process += 1;
    let error = shared.call(Request::Status, &[], Duration::from_secs(1), true).unwrap_err();
    assert!(matches!(error, ClientError::Forked { parent } if parent == shared.process), "{error}");
    let nothing = Seqpacket::from_fd(theirs).receive(&mut [0; 100]);
    assert_eq!(nothing.map(drop), Err(Errno::AGAIN));
}
