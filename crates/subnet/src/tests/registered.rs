//! Groups, services and subscriptions: by the datagrams that ports send, and by what the switches then hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mad::header::refusal;
use mad::in_process::InProcess;
use mad::notice::{GidDetails, InformInfo, IssuedNotice, trap};
use mad::sa::{self, DATA_AT, attribute, question};
use mad::sa_records::{GroupMemberRecord, ServiceRecord};
use mad::values::{Gid, Guid, Method, Status};
use mad::{Address, Layout, Lid, Mad, Received};
use topology::{Graph, Kind, NodeIx, PortIx};

use super::{Lab, brought_up, tree};

use crate::{Event, Manager, Options};

mod groups;

/// MGID, PortGID and JoinState.
const JOIN: u64 = 1 | 1 << 1 | 1 << 16;
/// What making a group takes beside these: Q_Key, TClass, P_Key, SL and FlowLabel.
const MAKE: u64 = JOIN | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;

/// A fabric, its manager, and ports that ask it.
struct Asked {
    transport: InProcess<Lab>,
    manager: Manager,
    events: Vec<Event>,
    /// Requests so far.
    asked: u64,
}

impl Asked {
    fn new(graph: Graph) -> Self {
        let mut transport = InProcess::new(Lab::new(graph));
        let options = Options { light_sweep: Duration::from_secs(1), ..Options::default() };
        let (manager, up) = brought_up(&mut transport, options);
        assert!(up.is_good(), "{up:?}");
        transport.fabric.watched = true;
        Self { transport, manager, events: Vec::new(), asked: 0 }
    }

    fn hosts(&self) -> Vec<PortIx> {
        let agents = &self.transport.fabric.agents;
        agents.graph().nodes_of(Kind::Host).map(|host| agents.place(host).unwrap()).collect()
    }

    fn lid(&self, port: PortIx) -> Lid {
        self.transport.fabric.agents.port_info(port).lid()
    }

    fn guid(&self, port: PortIx) -> Guid {
        self.transport.fabric.agents.node_info(port).port_guid()
    }

    fn gid(&self, port: PortIx) -> [u8; 16] {
        Gid::new(Gid::DEFAULT_PREFIX, self.guid(port)).0
    }

    fn attend(&mut self, seconds: u64) {
        let until = mad::MadTransport::now(&self.transport) + Duration::from_secs(seconds);
        let events = &mut self.events;
        self.manager
            .attend(&mut self.transport, Some(until), &mut |event| events.push(event), &|| false)
            .unwrap();
    }

    /// Sends requests of ports, and attends; the responses in their order.
    fn ask_all(&mut self, requests: &[(PortIx, Mad)]) -> Vec<Mad> {
        self.transport.fabric.administered.clear();
        let before = self.asked;
        for (port, mad) in requests {
            let mut mad = *mad;
            self.asked += 1;
            mad.header_mut().set_transaction(self.asked);
            let received = Received { from: Address::services(self.lid(*port)), mad, undelivered: false };
            self.transport.inject(Duration::from_micros(10), received);
        }
        self.attend(2);
        let sent = &self.transport.fabric.administered;
        let responses = sent.iter().filter(|(_, mad)| mad.header().method().is_response());
        let mut all: Vec<Mad> = responses.map(|(_, mad)| *mad).collect();
        all.retain(|mad| mad.header().transaction() > before);
        // Tables of several segments come again, as nobody acknowledges them.
        all.sort_by_key(|mad| mad.header().transaction());
        all.dedup_by_key(|mad| mad.header().transaction());
        assert_eq!(all.len(), requests.len());
        all
    }

    fn ask<T: Layout>(&mut self, port: PortIx, method: Method, attribute: u16, record: &T, mask: u64) -> Mad {
        self.ask_all(&[(port, question(method, attribute, record, mask))])[0]
    }

    /// The record of a response, or why it was refused.
    fn member(
        &mut self,
        port: PortIx,
        method: Method,
        record: &GroupMemberRecord,
        mask: u64,
    ) -> Result<GroupMemberRecord, u16> {
        let response = self.ask(port, method, attribute::GROUP_MEMBER, record, mask);
        let of_delete = response.header().method() == Method::DELETE_RESPONSE;
        assert!(of_delete || response.header().method() == Method::GET_RESPONSE);
        match refusal(&response) {
            Some(status) => Err(status.0),
            None => Ok(*response.at::<DATA_AT, _>()),
        }
    }

    /// A record by which a port makes a group.
    fn record(&self, port: PortIx, gid: [u8; 16], state: u8) -> GroupMemberRecord {
        let mut record = GroupMemberRecord::default();
        record.set_group_gid(&gid).set_port_gid(&self.gid(port)).set_join_state(state);
        record.set_queue_key(0x1234).set_partition(0xffff);
        record
    }

    /// The hosts that a packet of a host to a group comes to.
    fn heard(&self, from: PortIx, group: Lid) -> BTreeSet<PortIx> {
        let agents = &self.transport.fabric.agents;
        let graph = agents.graph();
        let (mut heard, mut way) = (BTreeSet::new(), vec![agents.peer(from).unwrap()]);
        for _ in 0..10_000 {
            let Some(came) = way.pop() else { return heard };
            let switch = graph.owner(came);
            for number in agents.group_ports(switch, group.0).filter(|number| *number != graph.number(came)) {
                let Some(far) = graph.port(switch, number).and_then(|port| agents.peer(port)) else {
                    continue;
                };
                if graph.kind(graph.owner(far)) == Kind::Switch {
                    way.push(far);
                } else {
                    assert!(heard.insert(far), "a packet comes twice");
                }
            }
        }
        panic!("a packet goes round");
    }

    fn hear_each_other(&self, members: &[PortIx], group: Lid) {
        for from in members {
            let others: BTreeSet<PortIx> = members.iter().copied().filter(|port| port != from).collect();
            assert_eq!(self.heard(*from, group), others);
        }
    }
}

/// Remembers a state of the multicast tables in which a packet can go round: with the cables between switches
/// over which a group's packets are sent, those of one group must not close a circle.
pub(super) fn look_for_loops(lab: &mut Lab) {
    let (agents, graph) = (&lab.agents, lab.agents.graph());
    for group in 0xc000..0xc008 {
        let mut above: BTreeMap<NodeIx, NodeIx> = BTreeMap::new();
        let top = |above: &BTreeMap<NodeIx, NodeIx>, mut node: NodeIx| {
            while let Some(next) = above.get(&node) {
                node = *next;
            }
            node
        };
        for switch in graph.nodes_of(Kind::Switch) {
            for number in agents.group_ports(switch, group) {
                let Some(far) = graph.port(switch, number).and_then(|port| agents.peer(port)) else {
                    continue;
                };
                let there = graph.owner(far);
                let back = agents.group_ports(there, group).any(|number| number == graph.number(far));
                if graph.kind(there) != Kind::Switch || back && there < switch {
                    continue;
                }
                let (a, b) = (top(&above, switch), top(&above, there));
                if a == b {
                    lab.group_loops.push(format!("{group:#x} at {}", graph.name(switch)));
                    return;
                }
                above.insert(a, b);
            }
        }
    }
}

#[test]
fn a_service_is_found_until_its_lease_ends_or_it_is_taken_back() {
    let mut asked = Asked::new(tree());
    let hosts = asked.hosts();
    let mut record = ServiceRecord::default();
    record.set_id(42).set_gid(&asked.gid(hosts[3])).set_partition(0xffff).set_lease(30);
    let mut name = [0; 64];
    name[..4].copy_from_slice(b"echo");
    record.set_name(&name).set_key(&[7; 16]);
    let all = 1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6;
    let status = |mad: &Mad| refusal(mad).map(|status| status.0);
    let set = |asked: &mut Asked, record: &ServiceRecord, mask: u64| {
        let mad = asked.ask(hosts[3], Method::SET, attribute::SERVICE, record, mask);
        status(&mad)
    };
    assert_eq!(set(&mut asked, &record, all & !2), Some(0x0600), "without its port");
    assert_eq!(set(&mut asked, &record, all), None);
    let mut stranger = record;
    stranger.set_key(&[8; 16]);
    assert_eq!(set(&mut asked, &stranger, all), Some(0x0200), "with another key");
    let by_name = |asked: &mut Asked| asked.ask(hosts[9], Method::GET, attribute::SERVICE, &record, 1 << 6);
    let found = by_name(&mut asked);
    let there: &ServiceRecord = found.at::<DATA_AT, _>();
    assert_eq!((there.id(), there.key()), (42, &[0; 16]), "the key is not shown");
    assert!((1..30).contains(&there.lease()), "{}", there.lease());
    asked.attend(31);
    assert_eq!(status(&by_name(&mut asked)), Some(0x0300), "the lease has ended");
    record.set_lease(u32::MAX);
    assert_eq!(set(&mut asked, &record, all), None);
    asked.attend(100);
    let remove = |asked: &mut Asked, record: &ServiceRecord| {
        let mad = asked.ask(hosts[3], Method::DELETE, attribute::SERVICE, record, 0b111 | 1 << 5);
        assert_eq!(mad.header().method(), Method::DELETE_RESPONSE);
        status(&mad)
    };
    assert_eq!(remove(&mut asked, &stranger), Some(0x0200));
    assert_eq!(remove(&mut asked, &record), None);
    assert_eq!(remove(&mut asked, &record), Some(0x0300));
}

#[test]
fn subscribers_are_told_of_groups_and_ports_until_they_acknowledge_it() {
    let mut asked = Asked::new(tree());
    let hosts = asked.hosts();
    let subscriber = hosts[20];
    let mut info = InformInfo::default();
    info.set_lid_first(Lid(0xffff)).set_generic(1).set_subscribe(1).set_severity(0xffff);
    info.set_number(0xffff).set_queue_pair(1).set_producer(0xff_ffff);
    let subscribed = asked.ask(subscriber, Method::SET, attribute::INFORM_INFO, &info, 0);
    assert_eq!(refusal(&subscribed), None);
    let reports = |asked: &Asked| -> Vec<(u64, u16, [u8; 16])> {
        let sent = asked.transport.fabric.administered.iter();
        let reports = sent.filter(|(_, mad)| mad.header().method() == Method::REPORT);
        reports
            .map(|(to, mad)| {
                assert_eq!(to.lid, asked.lid(subscriber));
                let issued: &IssuedNotice = mad.at::<DATA_AT, _>();
                let gid = *GidDetails::view(issued.notice().details()).unwrap().gid();
                (mad.header().transaction(), issued.notice().number(), gid)
            })
            .collect()
    };
    let made = asked.member(hosts[0], Method::SET, &asked.record(hosts[0], [0; 16], 1), MAKE).unwrap();
    let told = reports(&asked);
    assert_eq!((told[0].1, told[0].2), (trap::GROUP_CREATED, *made.group_gid()));
    // Nobody has acknowledged it: it comes again, four times in all.
    asked.transport.fabric.administered.clear();
    asked.attend(10);
    assert!((1..4).contains(&reports(&asked).len()), "{:?}", reports(&asked));
    asked.transport.fabric.administered.clear();
    asked.attend(10);
    assert_eq!(reports(&asked), []);
    // A host's cable is pulled. The report is acknowledged, and does not come again.
    let (gone, gid) = (hosts[100], asked.gid(hosts[100]));
    asked.transport.fabric.agents.unlink(gone);
    asked.attend(2);
    let told = reports(&asked);
    let is_it = |one: &&(u64, u16, [u8; 16])| (one.1, one.2) == (trap::GID_OUT, gid);
    let transaction = told.iter().find(is_it).unwrap_or_else(|| panic!("{told:?}")).0;
    for (transaction, ..) in &told {
        let mut mad =
            Mad::new(mad::values::Class::ADMINISTRATION, Method::REPORT_RESPONSE, attribute::NOTICE, 0);
        mad.header_mut().set_transaction(*transaction);
        let from = Address::services(asked.lid(subscriber));
        asked.transport.inject(Duration::ZERO, Received { from, mad, undelivered: false });
    }
    asked.attend(1);
    asked.transport.fabric.administered.clear();
    asked.attend(5);
    assert!(reports(&asked).iter().all(|one| one.0 != transaction), "{:?}", reports(&asked));
    asked.transport.fabric.agents.relink(gone);
    asked.attend(2);
    assert!(reports(&asked).iter().any(|one| (one.1, one.2) == (trap::GID_IN, gid)));
    // It ends the subscription, and hears nothing more; what it did not begin it can't end.
    info.set_subscribe(0);
    assert_eq!(refusal(&asked.ask(subscriber, Method::SET, attribute::INFORM_INFO, &info, 0)), None);
    let again = asked.ask(subscriber, Method::SET, attribute::INFORM_INFO, &info, 0);
    assert_eq!(refusal(&again), Some(Status(0x0200)));
    asked.attend(10);
    asked.transport.fabric.administered.clear();
    let leaving = asked.record(hosts[0], *made.group_gid(), 1);
    asked.member(hosts[0], Method::DELETE, &leaving, JOIN).unwrap();
    assert_eq!(reports(&asked), []);
}

#[test]
fn a_manager_that_begins_asks_ports_to_register_again_and_only_then() {
    let mut transport = InProcess::new(Lab::new(tree()));
    let (_, up) = brought_up(&mut transport, Options::default());
    assert!(up.is_good());
    let asked = |transport: &InProcess<Lab>| -> u32 {
        let agents = &transport.fabric.agents;
        agents.graph().nodes_of(Kind::Host).map(|it| agents.reregistered(agents.place(it).unwrap())).sum()
    };
    assert_eq!(asked(&transport), 0, "no port was active before");
    let mut again = Manager::new(Options::default()).unwrap();
    for _ in 0..2 {
        super::attend(&mut again, &mut transport, 5);
        assert_eq!(asked(&transport), 128, "each once");
    }
    let (_, once) = brought_up(&mut transport, Options::default());
    assert_eq!((once.sets.total(), asked(&transport)), (0, 128), "one that does not stay has no members");
}

/// In partitions, ports have paths and groups only with those of theirs.
#[test]
fn paths_and_groups_stay_in_their_partitions() {
    use mad::sa_records::PathRecord;
    let lab = Lab::new(tree());
    let guid = |name: &str| {
        let agents = &lab.agents;
        agents.node_info(agents.place(agents.node(name).unwrap()).unwrap()).port_guid().0
    };
    let text = format!(
        "Default=0x7fff: ALL=limited, SELF=full; A=5, ipoib: {:#x}=full, {:#x}=limited;",
        guid("host00003"),
        guid("host00004")
    );
    let partitions = crate::partitions::Partitions::parse(std::path::Path::new("p"), &text).unwrap();
    let mut transport = InProcess::new(lab);
    let options = Options { partitions: Some(partitions), ..Options::default() };
    let (manager, _) = brought_up(&mut transport, options);
    let mut asked = Asked { transport, manager, events: Vec::new(), asked: 0 };
    let hosts = asked.hosts();
    let path = |asked: &mut Asked, from: PortIx, to: PortIx, key: Option<u16>| {
        let mut wanted = PathRecord::default();
        wanted.set_source_lid(asked.lid(from)).set_destination_lid(asked.lid(to));
        wanted.set_partition(key.unwrap_or(0));
        let mask = 1 << 4 | 1 << 5 | key.map_or(0, |_| 1 << 13);
        let response = asked.ask(from, Method::GET, attribute::PATH, &wanted, mask);
        match refusal(&response) {
            Some(status) => Err(status.0),
            None => Ok(response.at::<DATA_AT, PathRecord>().partition()),
        }
    };
    assert_eq!(path(&mut asked, hosts[3], hosts[4], None), Ok(0x8005));
    assert_eq!(path(&mut asked, hosts[4], hosts[3], Some(0x8005)), Ok(0x0005));
    assert_eq!(path(&mut asked, hosts[3], hosts[4], Some(0xffff)), Err(0x0300), "two limited members");
    assert_eq!(path(&mut asked, hosts[3], hosts[9], None), Err(0x0300));
    assert_eq!(path(&mut asked, hosts[9], hosts[0], None), Ok(0x7fff), "the manager's is a full member");
    let gid = [0xff, 0x12, 0x40, 0x1b, 0x80, 0x05, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    let record = asked.record(hosts[3], gid, 1);
    assert_eq!(asked.member(hosts[3], Method::SET, &record, JOIN).unwrap().partition(), 0x8005);
    let record = asked.record(hosts[9], gid, 1);
    assert_eq!(asked.member(hosts[9], Method::SET, &record, JOIN), Err(0x0200), "it is in another partition");
}
