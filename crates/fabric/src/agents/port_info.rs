//! The effect of a Set of PortInfo.

use mad::sm::PortInfo;
use mad::values::{PhysicalState, PortState, Status};
use mad::{Lid, Mad};
use topology::{Kind, PortIx};

use super::Agents;

impl Agents {
    pub(crate) fn port_attribute(
        &mut self,
        asked: PortIx,
        mad: &mut Mad,
        set: bool,
        modifier: u32,
    ) -> Status {
        let node = self.graph.owner(asked);
        let switch = self.graph.kind(node) == Kind::Switch;
        let Ok(number) = u8::try_from(modifier & 0xff) else { return Status::BAD_FIELD };
        let port = if number == 0 && !switch { Some(asked) } else { self.graph.port(node, number) };
        let Some(port) = port else { return Status::BAD_FIELD };
        if set {
            if !switch && port != asked {
                return Status::BAD_FIELD;
            }
            let said: PortInfo = *mad.data();
            let status = self.set_port(port, &said);
            if status != Status::OK {
                return status;
            }
        }
        let mut info = self.ports[port.index()].info;
        // The port by which it was asked, as the specification has it.
        info.set_local_port(self.graph.number(asked));
        *mad.data_mut() = self.shown(port, info, mad);
        Status::OK
    }

    fn set_port(&mut self, port: PortIx, said: &PortInfo) -> Status {
        let has_link = !self.is_switch_own(port);
        let before = self.ports[port.index()].info;
        if said.operational_vls() > before.vl_capacity()
            || said.lid() > Lid::LAST_UNICAST && said.lid() != Lid(0)
            || !is_aligned(said)
            || has_link && !allowed(before.state(), said.state())
        {
            return Status::BAD_FIELD;
        }
        let mask_control = if self.has_one_lid(port) { 0 } else { said.mask_control() };
        let info = &mut self.ports[port.index()].info;
        info.set_management_key(said.management_key())
            .set_gid_prefix(said.gid_prefix())
            .set_lid(said.lid())
            .set_sm_lid(said.sm_lid())
            .set_key_lease(said.key_lease())
            .set_key_protection(said.key_protection())
            .set_mask_control(mask_control)
            .set_neighbor_mtu(said.neighbor_mtu())
            .set_sm_service_level(said.sm_service_level())
            .set_vl_high_limit(said.vl_high_limit())
            .set_stall_count(said.stall_count())
            .set_head_of_queue_life(said.head_of_queue_life())
            .set_inbound_enforcement(said.inbound_enforcement())
            .set_outbound_enforcement(said.outbound_enforcement())
            .set_filter_raw_inbound(said.filter_raw_inbound())
            .set_filter_raw_outbound(said.filter_raw_outbound())
            .set_subnet_timeout(said.subnet_timeout())
            .set_multicast_trap_suppression(said.multicast_trap_suppression())
            .set_local_physical_errors(said.local_physical_errors())
            .set_overrun_errors(said.overrun_errors());
        if said.client_reregister() {
            self.ports[port.index()].reregistered += 1;
        }
        let info = &mut self.ports[port.index()].info;
        // Zero leaves these as they are.
        if said.operational_vls() != 0 {
            info.set_operational_vls(said.operational_vls());
        }
        if said.width_enabled() != 0 {
            info.set_width_enabled(enabled(said.width_enabled(), u8::MAX, before.width_supported()));
        }
        if said.speed_enabled() != 0 {
            info.set_speed_enabled(enabled(said.speed_enabled(), 0xf, before.speed_supported()));
        }
        if said.down_default() != 0 {
            info.set_down_default(said.down_default());
        }
        if has_link {
            self.set_physical(port, said.physical_state());
            self.set_state(port, said.state());
        }
        Status::OK
    }

    fn is_switch_own(&self, port: PortIx) -> bool {
        self.graph.number(port) == 0 && self.graph.kind(self.graph.owner(port)) == Kind::Switch
    }

    fn set_physical(&mut self, port: PortIx, wanted: PhysicalState) {
        let now = self.ports[port.index()].info.physical_state();
        match wanted {
            PhysicalState::DISABLED | PhysicalState::SLEEP if now != wanted => {
                if let Some(peer) = self.peer(port).filter(|_| now == PhysicalState::LINK_UP) {
                    self.link_down(port, peer);
                }
                self.ports[port.index()].info.set_physical_state(wanted);
            }
            PhysicalState::POLLING => {
                // A link that is up trains anew.
                self.ports[port.index()].info.set_physical_state(PhysicalState::POLLING);
                match self.peer(port) {
                    Some(peer) => self.train(port, peer),
                    None => {
                        self.ports[port.index()].info.set_state(PortState::DOWN);
                    }
                }
            }
            _ => {}
        }
    }

    fn set_state(&mut self, port: PortIx, wanted: PortState) {
        if !self.is_up(port) {
            return;
        }
        match wanted {
            PortState::DOWN => {
                // It comes up again at once: what is left is that both ends have to be initialised anew.
                if let Some(peer) = self.peer(port) {
                    self.ports[port.index()].info.set_state(PortState::INITIALIZE);
                    self.ports[peer.index()].info.set_state(PortState::INITIALIZE);
                    self.state_changed(peer);
                }
            }
            PortState::ARMED | PortState::ACTIVE => {
                self.ports[port.index()].info.set_state(wanted);
            }
            _ => {}
        }
    }
}

/// Is the LID a multiple of the count of LIDs, and the last of them unicast?
fn is_aligned(said: &PortInfo) -> bool {
    let (first, count) = (u32::from(said.lid().0), 1_u32 << said.mask_control());
    first.is_multiple_of(count) && first + count - 1 <= u32::from(Lid::LAST_UNICAST.0)
}

/// May a port be set from this state to that one?
fn allowed(now: PortState, wanted: PortState) -> bool {
    match wanted {
        PortState::NO_CHANGE | PortState::DOWN => true,
        PortState::ARMED => matches!(now, PortState::INITIALIZE | PortState::ARMED),
        PortState::ACTIVE => matches!(now, PortState::ARMED | PortState::ACTIVE),
        _ => false,
    }
}

/// All ones is whatever the port can.
fn enabled(wanted: u8, all: u8, supported: u8) -> u8 {
    if wanted == all { supported } else { wanted & supported }
}
