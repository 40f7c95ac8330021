//! Records of our subnet administration, as `saquery` reads them one by one, and as tables of several
//! datagrams, which only our own client gets from a simulator. (Behind the record that was asked for,
//! `saquery` prints empty ones there: the library that it is preloaded with does not tell it where the table
//! ends.)

use std::collections::BTreeMap;

use mad::header::refusal;
use mad::ibsim::IbsimTransport;
use mad::rmpp::{FetchError, fetch};
use mad::sa::{attribute, question, records};
use mad::sa_records::{
    LinearTableRecord, LinkRecord, NodeRecord, PathRecord, PortInfoRecord, SmInfoRecord, SwitchInfoRecord,
};
use mad::values::{Gid, Method, Status};
use mad::windowed::{Limits, Outcome, Windowed};
use mad::{Address, Layout, Lid};

use super::beside::{Fabric, Ours};
use super::missing;

/// The lines of an answer, `name....value`, of the first record.
pub(crate) fn fields(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once("..")?;
        Some((name.trim_end_matches(':').to_owned(), value.trim_start_matches('.').trim().to_owned()))
    });
    let mut all = BTreeMap::new();
    for (name, value) in lines {
        all.entry(name).or_insert(value);
    }
    all
}

pub(crate) struct Asker {
    pub(crate) transport: IbsimTransport,
    pub(crate) to: Address,
}

impl Asker {
    pub(crate) fn new(fabric: &Fabric, node: &str) -> Self {
        let mut transport = IbsimTransport::connect(fabric.base(), node).unwrap();
        transport.refresh().unwrap();
        let to = Address::services(mad::MadTransport::sm_lid(&transport));
        Self { transport, to }
    }

    pub(crate) fn table<T: Layout + 'static>(&mut self, attribute: u16, record: &T, mask: u64) -> Vec<T> {
        let asked = question(Method::GET_TABLE, attribute, record, mask);
        let limits = Limits { timeout: std::time::Duration::from_secs(5), ..Limits::default() };
        let (bytes, size) = fetch(&mut self.transport, &self.to, &asked, &limits).unwrap();
        records::<T>(&bytes, size).copied().collect()
    }

    fn one<T: Layout + 'static>(&mut self, attribute: u16, record: &T, mask: u64) -> Result<T, Status> {
        self.ask(Method::GET, attribute, record, mask)
    }

    pub(crate) fn ask<T: Layout + 'static>(
        &mut self,
        method: Method,
        attribute: u16,
        record: &T,
        mask: u64,
    ) -> Result<T, Status> {
        let asked = question(method, attribute, record, mask);
        match fetch(&mut self.transport, &self.to, &asked, &Limits::default()) {
            Ok((bytes, _)) => Ok(*T::view(&bytes).unwrap()),
            Err(FetchError::Refused(status)) => Err(status),
            Err(error) => panic!("{error}"),
        }
    }
}

fn all_records(own: bool) {
    let fabric = Fabric::new("sa", own);
    let mut ours = Ours::start(&fabric, "host00000", 5);
    ours.until_up();
    let mut asker = Asker::new(&fabric, "host00003");
    let nodes: Vec<NodeRecord> = asker.table(attribute::NODE, &NodeRecord::default(), 0);
    assert_eq!(nodes.len(), 14, "in eight segments");
    let ports: Vec<PortInfoRecord> = asker.table(attribute::PORT_INFO, &PortInfoRecord::default(), 0);
    let mtu = ports[0].port_info().neighbor_mtu();
    assert!(mtu >= 4 && ports.iter().all(|port| port.port_info().lid().0 < 15));
    assert_eq!(ports.len(), 8 + 6 * 5, "of hosts, and of switches with their ports 0");
    let switches: Vec<SwitchInfoRecord> =
        asker.table(attribute::SWITCH_INFO, &SwitchInfoRecord::default(), 0);
    assert_eq!(switches.len(), 6);
    let links: Vec<LinkRecord> = asker.table(attribute::LINK, &LinkRecord::default(), 0);
    assert_eq!(links.len(), 32, "each in both directions");
    let tables: Vec<LinearTableRecord> =
        asker.table(attribute::LINEAR_TABLE, &LinearTableRecord::default(), 0);
    assert_eq!(tables.len(), 6);
    let managers: Vec<SmInfoRecord> = asker.table(attribute::SM_INFO, &SmInfoRecord::default(), 0);
    assert_eq!((managers.len(), managers[0].sm_info().priority()), (1, 5));
    let paths: Vec<PathRecord> = asker.table(attribute::PATH, &PathRecord::default(), 0);
    assert_eq!(paths.len(), 14 * 14 - 2, "no route leads between the two switches without hosts");
    let of = |name: &str| *nodes.iter().find(|node| node.description().to_text() == name).unwrap();
    let (from, to) = (of("host00003"), of("host00006"));

    // saquery of each record, one at a time.
    let ask = |words: &[&str]| {
        let said = fabric.command("host00005", &[&["saquery"], words].concat()).output().unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr)
    };
    let lid = to.lid().to_string();
    let node = ask(&["NR", &lid]);
    assert_eq!(fields(&node).get("node_guid"), Some(&to.node_info().node_guid().to_string()), "{node}");
    assert!(node.contains("host00006"), "{node}");
    let port = ask(&["PIR", &format!("{lid}/1")]);
    assert_eq!(fields(&port).get("Lid"), Some(&lid), "{port}");
    let switch = switches[0].lid().to_string();
    let info = ask(&["SWIR", &switch]);
    assert_eq!(fields(&info).get("LinearFDBTop").map(String::as_str), Some("0xE"), "{info}");
    let table = ask(&["LFTR", &format!("{switch}/0")]);
    let entry = tables[0].table().port(1).unwrap();
    assert!(table.contains(&format!("\n\t\t1\t{entry}\n")), "{table}");
    let link = ask(&["LR", &format!("{}/{}", links[0].from_lid(), links[0].from_port())]);
    assert_eq!(fields(&link).get("ToLID"), Some(&links[0].to_lid().to_string()), "{link}");
    let manager = ask(&["SMIR"]);
    assert!(manager.contains(&managers[0].sm_info().guid().to_string()), "{manager}");
    let path = ask(&["--src-to-dst", &format!("{}:{lid}", from.lid())]);
    assert_eq!(fields(&path).get("dlid"), Some(&lid), "{path}");
    let class = ask(&["-c"]);
    assert!(class.contains("Class version"), "{class}");

    // Of one path, by GIDs, and what is refused.
    let gid = |node: &NodeRecord| Gid::new(Gid::DEFAULT_PREFIX, node.node_info().port_guid()).0;
    let mut wanted = PathRecord::default();
    wanted.set_source_gid(&gid(&from)).set_destination_gid(&gid(&to)).set_paths(1);
    let found = asker.one(attribute::PATH, &wanted, 1 << 2 | 1 << 3 | 1 << 12).unwrap();
    assert_eq!((found.source_lid(), found.destination_lid()), (from.lid(), to.lid()));
    assert_eq!((found.mtu(), found.reversible(), found.partition()), (mtu, true, 0xffff), "{found:?}");
    wanted.set_destination_gid(&[0xaa; 16]);
    assert_eq!(asker.one(attribute::PATH, &wanted, 1 << 2 | 1 << 3), Err(Status(0x0500)));
    let mut stranger = NodeRecord::default();
    stranger.set_lid(Lid(4000));
    assert_eq!(asker.one(attribute::NODE, &stranger, 1), Err(Status(0x0300)), "no records");
    assert_eq!(asker.one(attribute::NODE, &stranger, 0), Err(Status(0x0400)), "too many");
    assert_eq!(asker.one(attribute::NODE, &stranger, 1 << 40), Err(Status(0x0200)), "no such field");
    assert_eq!(asker.one(0x33, &stranger, 0), Err(Status::ATTRIBUTE_NOT_SUPPORTED), "no partitions yet");
}

#[test]
fn saquery_reads_every_record_in_our_server() {
    if !missing(&["opensm", "saquery"]) {
        all_records(true);
    }
}

#[test]
fn saquery_reads_every_record_in_ibsim() {
    if !missing(&["ibsim", "opensm", "saquery"]) {
        all_records(false);
    }
}

/// Ten thousand requests at once from two sources: each gets an answer, or BUSY and then an answer.
#[test]
fn a_flood_of_path_requests_is_answered() {
    if missing(&["opensm"]) {
        return;
    }
    let fabric = Fabric::new("flood", true);
    let mut ours = Ours::start(&fabric, "host00000", 5);
    ours.until_up();
    let mut asker = Asker::new(&fabric, "host00003");
    let nodes: Vec<NodeRecord> = asker.table(attribute::NODE, &NodeRecord::default(), 0);
    let limits = Limits { window: 0, retries: 20, ..Limits::default() };
    let mut client: Windowed<u16> = Windowed::new(limits);
    for number in 0..10_000_usize {
        let to = nodes[number % nodes.len()].lid();
        let mut wanted = PathRecord::default();
        wanted.set_source_lid(nodes[0].lid()).set_destination_lid(to);
        client.ask(asker.to, question(Method::GET, attribute::PATH, &wanted, 1 << 4 | 1 << 5), to.0);
    }
    let (mut done, mut answered) = (Vec::new(), 0);
    while client.open() > 0 {
        client.drive(&mut asker.transport, std::time::Duration::from_millis(100), &mut done).unwrap();
        for one in done.drain(..) {
            let Outcome::Answer(mad) = one.outcome else { panic!("{:?}", one.outcome) };
            assert_eq!(refusal(&mad), None);
            assert_eq!(mad.at::<{ mad::sa::DATA_AT }, PathRecord>().destination_lid(), Lid(one.key));
            answered += 1;
        }
    }
    assert_eq!(answered, 10_000);
}
