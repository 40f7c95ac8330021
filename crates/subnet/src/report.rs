//! What came of bringing a fabric up, and of a repair: as values that are printed.

use serde::Serialize;
use topology::{counted, verb};

use crate::routes::Manner;

/// What is named of each kind; the rest is counted.
pub const NAMED: usize = 20;

/// Sets that were sent or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Sets {
    /// Of PortInfo.
    pub port_info: u64,
    /// Of SwitchInfo.
    pub switch_info: u64,
    /// Of blocks of linear forwarding tables.
    pub lft_blocks: u64,
    /// Of blocks of multicast forwarding tables.
    pub mft_blocks: u64,
    /// Of blocks of partition tables.
    pub pkey_blocks: u64,
    /// Of maps of service levels to VLs.
    pub sl2vl_maps: u64,
    /// Of blocks of VL arbitration.
    pub vl_arbitration_blocks: u64,
}

impl Sets {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.port_info
            + self.switch_info
            + self.lft_blocks
            + self.mft_blocks
            + self.pkey_blocks
            + self.sl2vl_maps
            + self.vl_arbitration_blocks
    }

    pub(crate) fn count(&mut self, set: &crate::set::Set) {
        match set {
            crate::set::Set::Port(..) => self.port_info += 1,
            crate::set::Set::Switch(..) => self.switch_info += 1,
            crate::set::Set::Table(..) => self.lft_blocks += 1,
            crate::set::Set::Multicast(..) => self.mft_blocks += 1,
            crate::set::Set::Keys(..) => self.pkey_blocks += 1,
            crate::set::Set::Levels(..) => self.sl2vl_maps += 1,
            crate::set::Set::Arbitration(..) => self.vl_arbitration_blocks += 1,
        }
    }

    fn words(&self) -> String {
        let mut words = format!(
            "{} of PortInfo, {} of SwitchInfo, {} of LFT blocks",
            self.port_info, self.switch_info, self.lft_blocks
        );
        let (levels, turns) = (self.sl2vl_maps, self.vl_arbitration_blocks);
        if levels + turns > 0 {
            words.push_str(&format!(", {levels} of SL-to-VL maps, {turns} of VL arbitration blocks"));
        }
        words
    }
}

/// Seconds of each part of bringing a fabric up.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Seconds {
    /// The sweep, and the question who else manages.
    pub sweep: f64,
    /// Reading the tables that switches had.
    pub read_tables: f64,
    /// LIDs and link parameters; the routes are computed and checked meanwhile.
    pub ports_and_routes: f64,
    /// Writing the tables.
    pub write_tables: f64,
    /// Making the links active.
    pub activate: f64,
    /// All of it.
    pub total: f64,
}

/// What came of bringing a fabric up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BroughtUp {
    /// Nodes, of them switches, and end ports with a LID.
    pub nodes: usize,
    /// Of them switches.
    pub switches: usize,
    /// LIDs in use.
    pub lids: usize,
    /// LMC: ports of hosts have 2 to this power LIDs.
    pub lmc: u8,
    /// End ports that had a LID and got another one, as it was another's or does not fit the LMC.
    pub moved_ports: usize,
    /// LID of the manager's port.
    pub sm_lid: u16,
    /// Links that are up.
    pub links: usize,
    /// Of them those that are active at both ends.
    pub active_links: usize,
    /// The routing engine.
    pub engine: &'static str,
    /// Why that one.
    pub why: String,
    /// Notes on the routes.
    pub notes: Vec<String>,
    /// Pairs of a switch with CAs and a LID of a CA that have no route though cables lead there.
    pub lost_pairs: u64,
    /// Ports of a credit loop that the routes have, as an engine without care for them was asked for by name;
    /// 0 if there is none.
    pub credit_loop: usize,
    /// In which steps the tables were written.
    pub manner: Manner,
    /// What was sent.
    pub sets: Sets,
    /// Datagrams in all, repetitions included.
    pub datagrams: u64,
    /// Durations.
    pub seconds: Seconds,
    /// What did not fit in the sweep, and what was refused or not answered; the first of them.
    pub findings: Vec<String>,
    /// Findings in all.
    pub findings_in_all: usize,
    /// Sets that were refused or not answered.
    pub failed_sets: usize,
}

/// What came of a change in the fabric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repaired {
    /// What led to it, such as `trap 128 from LID 7`.
    pub cause: String,
    /// Cables that went down, each by one of its ports.
    pub down: Vec<String>,
    /// Cables that came back, or went down and up again.
    pub up: Vec<String>,
    /// Cables that went down too often, and are held back until they have been up for a while.
    pub quarantined: Vec<String>,
    /// Entries of the tables that changed.
    pub changed_entries: usize,
    /// Switches with such entries.
    pub changed_switches: usize,
    /// In which steps they were written.
    pub manner: Manner,
    /// What was sent.
    pub sets: Sets,
    /// Pairs of a switch with CAs and a LID of a CA between which cables lead, and which have no route.
    pub lost_pairs: u64,
    /// End ports to which no cable leads any more.
    pub cut_off: usize,
    /// Links that are up, and of them those that are active at both ends.
    pub links: usize,
    /// Of them those that are active at both ends.
    pub active_links: usize,
    /// What was refused or not answered; the first of them.
    pub findings: Vec<String>,
    /// Sets that were refused or not answered.
    pub failed_sets: usize,
    /// Seconds from when the manager began to look at the change until the last Set was answered.
    pub seconds: f64,
    /// Seconds after that until the next change can be looked at: dependencies of the tables are computed for
    /// it.
    pub seconds_after: f64,
}

/// What came of a change of groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grouped {
    /// Multicast groups, and members of all of them.
    pub groups: usize,
    /// Members of all groups.
    pub members: usize,
    /// Groups whose trees were computed.
    pub computed_groups: usize,
    /// Were entries of former trees taken away first, as both together could make a loop?
    pub in_two_steps: bool,
    /// What was sent.
    pub sets: Sets,
    /// What was refused or not answered; the first of them.
    pub findings: Vec<String>,
    /// Sets that were refused or not answered.
    pub failed_sets: usize,
    /// Seconds until the last Set was answered.
    pub seconds: f64,
}

impl Grouped {
    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        let mut words = format!(
            "{} with {}: MFT entries of {} written, {}, in {:.3} s{}\n",
            counted(self.groups, "multicast group"),
            counted(self.members, "member"),
            counted(self.computed_groups, "group"),
            counted(self.sets.mft_blocks, "block"),
            self.seconds,
            if self.in_two_steps { ", former entries first taken away" } else { "" }
        );
        self.findings.iter().for_each(|finding| words.push_str(&format!("  finding: {finding}\n")));
        words
    }
}

impl BroughtUp {
    /// Is everything as it is to be?
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failed_sets == 0
            && self.lost_pairs == 0
            && self.credit_loop == 0
            && self.active_links == self.links
            && self.findings.is_empty()
    }

    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        let mut words = format!(
            "{} ({} of them {}), {}: {} of {} active\n",
            counted(self.nodes, "node"),
            self.switches,
            verb(self.switches, "a switch", "switches"),
            counted(self.lids, "LID"),
            self.active_links,
            counted(self.links, "link")
        );
        words
            .push_str(&format!("this manager: LID {}\nengine: {}: {}\n", self.sm_lid, self.engine, self.why));
        self.notes.iter().for_each(|note| words.push_str(&format!("  note: {note}\n")));
        if self.moved_ports > 0 {
            let gets = verb(self.moved_ports, "gets", "get");
            let ports = counted(self.moved_ports, "port");
            words.push_str(&format!(
                "{ports} {gets} another LID: the former one was another port's, or does not fit LMC {}\n",
                self.lmc
            ));
        }
        if self.lost_pairs > 0 {
            words.push_str(&format!("{} without a route\n", counted(self.lost_pairs, "pair")));
        }
        if self.credit_loop > 0 {
            words.push_str(&format!(
                "the routes have a credit loop over {}: take the engine auto\n",
                counted(self.credit_loop, "port")
            ));
        }
        words.push_str(&format!("LFTs: {}\n", manner(self.manner)));
        words.push_str(&format!("Sets: {}; {} in all\n", self.sets.words(), counted(self.datagrams, "MAD")));
        let at = &self.seconds;
        words.push_str(&format!(
            "seconds: sweep {:.3}, LFTs read {:.3}, ports set and routes computed {:.3}, LFTs written {:.3}, links activated {:.3}; {:.3} in all\n",
            at.sweep, at.read_tables, at.ports_and_routes, at.write_tables, at.activate, at.total
        ));
        self.findings.iter().for_each(|finding| words.push_str(&format!("finding: {finding}\n")));
        let more = self.findings_in_all.saturating_sub(self.findings.len());
        if more > 0 {
            words.push_str(&format!("{} more\n", counted(more, "finding")));
        }
        words
    }
}

impl Repaired {
    /// Is everything as it is to be?
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failed_sets == 0 && self.lost_pairs == 0 && self.active_links == self.links
    }

    /// Nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.down.is_empty()
            && self.up.is_empty()
            && self.quarantined.is_empty()
            && self.sets.port_info + self.sets.lft_blocks == 0
            && self.findings.is_empty()
    }

    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        let list = |what: &str, all: &[String]| match all {
            [] => String::new(),
            [one] => format!("  {what}: {one}\n"),
            [one, rest @ ..] => format!("  {what}: {one} and {} more\n", rest.len()),
        };
        let mut words = format!("{}: repaired in {:.3} s\n", self.cause, self.seconds);
        words.push_str(&list("down", &self.down));
        words.push_str(&list("up", &self.up));
        words.push_str(&list("in quarantine, as it went down too often", &self.quarantined));
        words.push_str(&format!(
            "  {} of {} changed, written in {}: {}\n",
            counted(self.changed_entries, "LFT entry"),
            counted(self.changed_switches, "switch"),
            counted(self.sets.lft_blocks, "block"),
            manner(self.manner)
        ));
        words.push_str(&format!("  {} of {} active", self.active_links, counted(self.links, "link")));
        if self.cut_off > 0 {
            words.push_str(&format!(", {} cut off", counted(self.cut_off, "end port")));
        }
        if self.lost_pairs > 0 {
            words.push_str(&format!(", {} without a route", counted(self.lost_pairs, "pair")));
        }
        words.push('\n');
        self.findings.iter().for_each(|finding| words.push_str(&format!("  finding: {finding}\n")));
        words
    }
}

fn manner(manner: Manner) -> &'static str {
    match manner {
        Manner::AtOnce => "no order of the writes has a loop or credit loop",
        Manner::DeadLast => {
            "entries of dead cables last, so that no order of the writes has a loop or credit loop"
        }
        Manner::NewFirst => {
            "entries of new cables first, so that no order of the writes has a loop or credit loop"
        }
        Manner::Drained => {
            "changed entries emptied first, so that no order of the writes has a loop or credit loop"
        }
        Manner::OldLoop => "changed entries emptied first; the former LFTs had a credit loop",
    }
}
