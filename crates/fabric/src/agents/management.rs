//! The subnet-management agent of a node.

use mad::header::DATA_AT;
use mad::sm::{GuidInfo, LIDS_PER_BLOCK, LedInfo, LinearTable, NodeDescription, SwitchInfo, attribute};
use mad::values::{Guid, Method, Status};
use mad::{Layout, Mad};
use topology::{Kind, NodeIx, PortIx};

use super::{Agents, GUID_CAPACITY, LINEAR_CAPACITY, MULTICAST_CAPACITY, PARTITION_CAPACITY};

impl Agents {
    /// Responds to a request of the subnet-management classes that came to `port`: the response is put into
    /// `mad`.
    pub(crate) fn manage(&mut self, port: PortIx, mad: &mut Mad) -> Status {
        let set = mad.header().method() == Method::SET;
        let modifier = mad.header().modifier();
        match mad.header().attribute() {
            attribute::NODE_DESCRIPTION if !set => {
                let node = self.graph.owner(port);
                *mad.data_mut::<NodeDescription>() = self.nodes[node.index()].1;
                Status::OK
            }
            attribute::NODE_INFO if !set => {
                clear(mad);
                *mad.data_mut() = self.node_info(port);
                Status::OK
            }
            attribute::NODE_DESCRIPTION | attribute::NODE_INFO => Status::METHOD_NOT_SUPPORTED,
            attribute::SWITCH_INFO => self.switch_info(port, mad, set),
            attribute::PORT_INFO => self.port_attribute(port, mad, set, modifier),
            attribute::LINEAR_TABLE => self.linear(port, mad, set, modifier),
            attribute::MULTICAST_TABLE => self.multicast(port, mad, set, modifier),
            attribute::GUID_INFO => self.guids(port, mad, set, modifier),
            attribute::PARTITION_TABLE => self.partitions(port, mad, set, modifier),
            attribute::SL_TO_VL_MAP => self.vl_map(port, mad, set, modifier),
            attribute::VL_ARBITRATION => self.arbitration(port, mad, set, modifier),
            attribute::LED_INFO => self.table(port, attribute::LED_INFO, 0, LedInfo::LEN, mad, set, |_| ()),
            // A vendor's own, which managers ask of its devices: no speed but the standard's.
            attribute::VENDOR_PORT_INFO => {
                clear(mad);
                Status::OK
            }
            _ => Status::ATTRIBUTE_NOT_SUPPORTED,
        }
    }

    fn switch_info(&mut self, port: PortIx, mad: &mut Mad, set: bool) -> Status {
        let Some(switch) = self.switches.get_mut(&self.graph.owner(port)) else {
            return Status::ATTRIBUTE_NOT_SUPPORTED;
        };
        if set {
            let said: &SwitchInfo = mad.data();
            if said.linear_top() >= LINEAR_CAPACITY {
                return Status::BAD_FIELD;
            }
            if said.state_change() {
                switch.info.set_state_change(false);
            }
            switch
                .info
                .set_linear_top(said.linear_top())
                .set_default_port(said.default_port())
                .set_default_multicast_primary(said.default_multicast_primary())
                .set_default_multicast_other(said.default_multicast_other())
                .set_life_time(said.life_time())
                .set_multicast_top(said.multicast_top());
        }
        let info = switch.info;
        clear(mad);
        *mad.data_mut() = info;
        Status::OK
    }

    fn linear(&mut self, port: PortIx, mad: &mut Mad, set: bool, block: u32) -> Status {
        let node = self.graph.owner(port);
        let Some(switch) = self.switches.get_mut(&node) else { return Status::ATTRIBUTE_NOT_SUPPORTED };
        if block >= u32::from(LINEAR_CAPACITY / LIDS_PER_BLOCK) {
            return Status::BAD_FIELD;
        }
        let first = block as usize * usize::from(LIDS_PER_BLOCK);
        let range = first..first + usize::from(LIDS_PER_BLOCK);
        if set {
            if switch.linear.len() < range.end {
                switch.linear.resize(range.end, u8::MAX);
            }
            switch.linear[range].copy_from_slice(&mad.0[DATA_AT..DATA_AT + LinearTable::LEN]);
        } else {
            let out = &mut mad.0[DATA_AT..DATA_AT + LinearTable::LEN];
            match switch.linear.get(range) {
                Some(block) => out.copy_from_slice(block),
                None => out.fill(u8::MAX),
            }
        }
        Status::OK
    }

    fn multicast(&mut self, port: PortIx, mad: &mut Mad, set: bool, modifier: u32) -> Status {
        let node = self.graph.owner(port);
        let ports = self.graph.port_count(node);
        let Some(switch) = self.switches.get_mut(&node) else { return Status::ATTRIBUTE_NOT_SUPPORTED };
        let (position, block) = ((modifier >> 28) as u8, (modifier & 0x1ff) as u16);
        if block > MULTICAST_CAPACITY / 32 || u16::from(position) * 16 > u16::from(ports) {
            return Status::BAD_FIELD;
        }
        let data = &mut mad.0[DATA_AT..DATA_AT + 64];
        if set {
            let mut kept = [0; 64];
            kept.copy_from_slice(data);
            switch.multicast.insert((position, block), kept);
        } else {
            data.copy_from_slice(switch.multicast.get(&(position, block)).unwrap_or(&[0; 64]));
        }
        Status::OK
    }

    fn guids(&mut self, port: PortIx, mad: &mut Mad, set: bool, block: u32) -> Status {
        if block >= u32::from(GUID_CAPACITY / 8) {
            return Status::BAD_FIELD;
        }
        let end = self.end_port(port);
        let own = self.node_info(end).port_guid();
        let done = self.table(end, attribute::GUID_INFO, block, GuidInfo::LEN, mad, set, |_| ());
        if block == 0 {
            // The first is burnt in.
            let _ = mad.data_mut::<GuidInfo>().set_guid(0, own);
        }
        debug_assert_ne!(own, Guid(0));
        done
    }

    fn partitions(&mut self, port: PortIx, mad: &mut Mad, set: bool, modifier: u32) -> Status {
        let (number, block) = ((modifier >> 16) as u8, modifier & 0xffff);
        if block >= u32::from(PARTITION_CAPACITY / 32) {
            return Status::BAD_FIELD;
        }
        let Some(of) = self.chosen(port, number) else { return Status::BAD_FIELD };
        // Every port begins as full member of the partition that all belong to.
        let full = |out: &mut [u8]| out[..2].fill(if block == 0 { 0xff } else { 0 });
        self.table(of, attribute::PARTITION_TABLE, block, 64, mad, set, full)
    }

    fn vl_map(&mut self, port: PortIx, mad: &mut Mad, set: bool, modifier: u32) -> Status {
        let node = self.graph.owner(port);
        let (input, output) = ((modifier >> 8) as u8, modifier as u8);
        let switch = self.graph.kind(node) == Kind::Switch;
        let of = if switch { self.graph.port(node, output) } else { Some(port) };
        let Some(of) = of.filter(|_| !switch || self.graph.port(node, input).is_some()) else {
            return Status::BAD_FIELD;
        };
        // Eight VLs, and levels on them in turn.
        let turn = |out: &mut [u8]| {
            for (byte, first) in out.iter_mut().take(8).zip((0_u8..).step_by(2)) {
                *byte = ((first % 8) << 4) | ((first + 1) % 8);
            }
        };
        let part = if switch { input.into() } else { 0 };
        self.table(of, attribute::SL_TO_VL_MAP, part, 8, mad, set, turn)
    }

    fn arbitration(&mut self, port: PortIx, mad: &mut Mad, set: bool, modifier: u32) -> Status {
        let (block, number) = (modifier >> 16, modifier as u8);
        if !(1..=4).contains(&block) {
            return Status::BAD_FIELD;
        }
        let Some(of) = self.chosen(port, number) else { return Status::BAD_FIELD };
        self.table(of, attribute::VL_ARBITRATION, block, 64, mad, set, |_| ())
    }

    /// A switch's port of this number; of a host the one that was asked.
    fn chosen(&self, port: PortIx, number: u8) -> Option<PortIx> {
        let node: NodeIx = self.graph.owner(port);
        if self.graph.kind(node) == Kind::Switch { self.graph.port(node, number) } else { Some(port) }
    }

    /// A table of which only what was set is kept; `unset` makes it what it is before.
    #[expect(clippy::too_many_arguments, reason = "a part of a table of a port, and what to do with it")]
    fn table(
        &mut self,
        port: PortIx,
        attribute: u16,
        part: u32,
        len: usize,
        mad: &mut Mad,
        set: bool,
        unset: impl Fn(&mut [u8]),
    ) -> Status {
        let data = &mut mad.0[DATA_AT..DATA_AT + 64];
        if set {
            let mut kept = [0; 64];
            kept[..len].copy_from_slice(&data[..len]);
            self.tables.insert((port, attribute, part), kept);
        } else {
            data.fill(0);
            match self.tables.get(&(port, attribute, part)) {
                Some(kept) => data.copy_from_slice(kept),
                None => unset(data),
            }
        }
        Status::OK
    }
}

/// Zeros where the attribute goes: responses must not hold what the request had there.
fn clear(mad: &mut Mad) {
    mad.0[DATA_AT..DATA_AT + 64].fill(0);
}
