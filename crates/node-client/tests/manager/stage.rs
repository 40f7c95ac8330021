//! A place on which a test plays the manager.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use link::page::PageWriter;
use node_client::runtime_dir::{ClusterDir, ClusterName};
use node_client::seqpacket::{Seqpacket, Wanted};
use node_client::{AttachOptions, Client, ClientEvent};
use proto::ids::{NodeId, SegmentId, SegmentKey};
use proto::wire::program::{
    ConnectionId, ImportSlot, Incarnation, Refusal, Reply, Request, RequestId, ToManager, ToProgram,
};
use proto::wire::status::NodeInfo;
use proto::wire::{MAX_DATAGRAM_BYTES, decode, encode};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use shm::region::{Region, RegionOptions};

pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);
pub(crate) const KEY: SegmentKey = SegmentKey::Segment(SegmentId(1));

pub(crate) fn four() -> NodeId {
    NodeId::new(4).unwrap()
}

/// A place with the socket of a manager, on which a test plays the manager.
pub(crate) struct Stage {
    root: PathBuf,
    pub(crate) dir: ClusterDir,
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) page: PageWriter,
}

impl Stage {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("tl-client-{}-{number}", std::process::id()));
        let dir = ClusterDir::new(root.clone(), ClusterName::new("t").unwrap());
        std::fs::create_dir_all(dir.path()).unwrap();
        let mut stage = Self { root, dir, listener: None, page: PageWriter::create(four(), 1).unwrap() };
        stage.open();
        stage
    }

    pub(crate) fn open(&mut self) {
        let path = self.dir.socket(four()).unwrap();
        let _ = std::fs::remove_file(&path);
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&fd, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&fd, 8).unwrap();
        self.listener = Some(fd);
    }

    pub(crate) fn options(&self) -> AttachOptions {
        AttachOptions {
            runtime_dir: Some(self.root.clone()),
            cluster: Some("t".into()),
            node: Some(four()),
            name: Some("test".into()),
        }
    }

    /// The next program that connects.
    pub(crate) fn accept(&self) -> Talk {
        let fd = accept_with(self.listener.as_ref().unwrap(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
            .unwrap();
        Talk { socket: Seqpacket::from_fd(fd) }
    }

    pub(crate) fn welcome(&self, talk: &Talk) -> bool {
        let ToManager::Hello { reattach, .. } = talk.receive().unwrap().0 else { panic!("no hello") };
        talk.say(&ToProgram::Welcome { info: info() }, &[self.page.fd()]);
        reattach
    }

    /// A program that is attached, and the manager's end of its connection.
    pub(crate) fn attached(&self) -> (Client, Receiver<ClientEvent>, Talk) {
        let (sender, events) = channel();
        std::thread::scope(|scope| {
            let client = scope
                .spawn(|| Client::attach(&self.options(), move |event| drop(sender.send(event))).unwrap());
            let talk = self.accept();
            assert!(!self.welcome(&talk));
            (client.join().unwrap(), events, talk)
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

pub(crate) fn info() -> NodeInfo {
    NodeInfo {
        node: four(),
        cluster: "t".into(),
        host: "h".into(),
        version: "0".into(),
        manager_pid: 1,
        incarnation: 1,
        adapters: Vec::new(),
        faults: false,
        rails: Vec::new(),
    }
}

/// The manager's end of a connection.
pub(crate) struct Talk {
    pub(crate) socket: Seqpacket,
}

impl Talk {
    pub(crate) fn receive(&self) -> Option<(ToManager, Vec<OwnedFd>)> {
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < WATCHDOG, "the program says nothing");
            match self.socket.receive(&mut buffer) {
                Ok(Some(datagram)) => {
                    return Some((decode(&buffer[..datagram.len]).unwrap(), datagram.descriptors));
                }
                Ok(None) | Err(rustix::io::Errno::CONNRESET) => return None,
                Err(_) => drop(self.socket.wait(Wanted::Read, Some(Duration::from_millis(100))).unwrap()),
            }
        }
    }

    pub(crate) fn request(&self) -> (RequestId, Request, Vec<OwnedFd>) {
        match self.receive() {
            Some((ToManager::Request { id, body }, descriptors)) => (id, body, descriptors),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn say(&self, message: &ToProgram, descriptors: &[BorrowedFd<'_>]) {
        self.socket.send(&encode(message).unwrap(), descriptors).unwrap();
    }

    pub(crate) fn answer(
        &self,
        id: RequestId,
        result: Result<Reply, Refusal>,
        descriptors: &[BorrowedFd<'_>],
    ) {
        self.say(&ToProgram::Reply { id, result }, descriptors);
    }
}

pub(crate) fn granted(slot: u32) -> Reply {
    let (connection, incarnation) = (ConnectionId(9), Incarnation(8));
    Reply::Segment { import: ImportSlot(slot), connection, size_bytes: 4096, incarnation }
}

pub(crate) fn memory() -> Region {
    Region::create(&RegionOptions::new("test", 4096)).unwrap()
}

pub(crate) fn await_event<T>(
    events: &Receiver<ClientEvent>,
    wanted: impl Fn(&ClientEvent) -> Option<T>,
) -> T {
    loop {
        if let Some(found) = wanted(&events.recv_timeout(WATCHDOG).expect("the event never came")) {
            return found;
        }
    }
}
