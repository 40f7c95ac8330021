//! The PortInfo that each port is to have, and the Set that gives it to it.

use mad::Lid;
use mad::sm::{PortInfo, capability};
use mad::values::{Gid, PhysicalState, PortState};

use crate::protection::Protection;

/// What a port gets, beside its link's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its LID; `None` for an external port of a switch, which has none.
    pub lid: Option<Lid>,
    /// The LID of this manager.
    pub sm_lid: Lid,
    /// LMC: it has 2 to this power LIDs. Only of ports that have a LID.
    pub lmc: u8,
    /// Its clients are to register again (ClientReregister, 14.4.11): what they had registered is lost.
    pub reregister: bool,
    /// How the port is protected; nothing of an external port of a switch, which port 0 protects.
    pub protection: Protection,
    /// Most VLs that are operated, as PortInfo codes them; `None`: as many as both ends can.
    pub most_vls: Option<u8>,
    /// VLHighLimit of VL arbitration; `None`: it stays.
    pub high_limit: Option<u8>,
}

/// The step in which a link is brought up (InfiniBand Architecture Specification, volume 1, 7.2: Initialize,
/// Armed, Active).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// LIDs and parameters, and from Initialize to Armed: packets are taken in, and none is sent.
    Arm,
    /// From Armed to Active.
    Activate,
}

/// The PortInfo to be set at a port, or `None` if it has all that it is to have in this step. `far` is the
/// other end of its cable. A switch's own port (number 0) has no link: `far` is `None`, and only its identity
/// is set.
///
/// MTU and operational VLs are the least that both ends can (NeighborMTU, OperationalVLs; 14.2.5.6). They are
/// set while the link is not active yet; of an active link only the identity is set, so that its packets go
/// on. Fields for which zero means "no change" are zero: widths, speeds, the physical state and the default
/// state of a link that is down.
#[must_use]
pub fn port(now: &PortInfo, far: Option<&PortInfo>, identity: &Identity, step: Step) -> Option<PortInfo> {
    let mut to_be = *now;
    let protection = identity.lid.map_or(Protection::default(), |_| identity.protection);
    to_be.set_management_key(protection.key.number()).set_key_protection(protection.level);
    // Without a key its lease has no meaning, and is left as it is.
    if protection.key.is_some() {
        to_be.set_key_lease(protection.lease);
    }
    to_be.set_mask_control(identity.lid.map_or(0, |_| identity.lmc));
    to_be.set_sm_lid(identity.sm_lid).set_sm_service_level(0);
    if let Some(limit) = identity.high_limit.filter(|_| now.vl_capacity() > 1) {
        to_be.set_vl_high_limit(limit);
    }
    if let Some(lid) = identity.lid {
        to_be.set_lid(lid);
    }
    if now.gid_prefix() == 0 {
        to_be.set_gid_prefix(Gid::DEFAULT_PREFIX);
    }
    let mut state = PortState::NO_CHANGE;
    if let Some(far) = far {
        if matches!(now.state(), PortState::INITIALIZE | PortState::ARMED) {
            let least = |one: u8, other: u8| if other == 0 { one } else { one.min(other) };
            to_be.set_neighbor_mtu(least(now.mtu_capacity(), far.mtu_capacity()));
            let vls = least(now.vl_capacity(), far.vl_capacity());
            to_be.set_operational_vls(identity.most_vls.map_or(vls, |most| vls.min(most)));
        }
        state = match (step, now.state()) {
            (Step::Arm, PortState::INITIALIZE) => PortState::ARMED,
            (Step::Activate, PortState::ARMED) => PortState::ACTIVE,
            _ => PortState::NO_CHANGE,
        };
    }
    // A port that is not active yet tells its clients when it is.
    let can = now.capability_mask() & capability::CLIENT_REREGISTER != 0;
    let asks = identity.reregister && identity.lid.is_some() && can && now.state() == PortState::ACTIVE;
    if to_be == *now && state == PortState::NO_CHANGE && !asks {
        return None;
    }
    to_be.set_state(state).set_physical_state(PhysicalState::NO_CHANGE).set_down_default(0);
    to_be.set_width_enabled(0).set_speed_enabled(0).set_speed_ext_enabled(0).set_speed_ext2_enabled(0);
    to_be.set_client_reregister(asks);
    Some(to_be)
}

/// What an end port did not take of what it was given, in words: it may report another LID, LMC or key. Then
/// packets to its other LIDs are lost, or it obeys another manager.
#[must_use]
pub fn not_taken(reported: &PortInfo, identity: &Identity) -> Option<String> {
    let (has, wanted) = (reported.lid(), identity.lid?);
    if has != wanted {
        return Some(format!("it keeps LID {has} where {wanted} was set"));
    }
    let (has, wanted) = (reported.mask_control(), identity.lmc);
    if has != wanted {
        return Some(format!(
            "it keeps LMC {has} where {wanted} was set, so not all of its LIDs can be used"
        ));
    }
    let key = identity.protection.key;
    let is_taken = !key.is_some() || reported.management_key() == key.number();
    (!is_taken).then(|| "it did not take the M_Key".to_owned())
}

/// Bytes of an MTU as PortInfo codes it: 1 is 256; `None` of a code that is none.
#[must_use]
pub fn mtu_bytes(code: u8) -> Option<u32> {
    (1..=5).contains(&code).then(|| 128 << code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protection::ManagementKey;

    fn at(state: PortState, mtu: u8, vls: u8) -> PortInfo {
        let mut info = PortInfo::default();
        info.set_state(state).set_physical_state(PhysicalState::LINK_UP);
        info.set_mtu_capacity(mtu).set_neighbor_mtu(1).set_vl_capacity(vls).set_operational_vls(1);
        info.set_width_enabled(3).set_speed_enabled(7).set_speed_ext_enabled(3).set_down_default(2);
        info
    }

    const ME: Identity = Identity {
        lid: Some(Lid(9)),
        sm_lid: Lid(4),
        lmc: 0,
        reregister: false,
        protection: Protection::NONE,
        most_vls: None,
        high_limit: None,
    };

    #[test]
    fn a_link_gets_what_both_ends_can_and_goes_up_in_two_steps() {
        let (mut near, far) = (at(PortState::INITIALIZE, 5, 4), at(PortState::INITIALIZE, 4, 5));
        let arm = port(&near, Some(&far), &ME, Step::Arm).unwrap();
        assert_eq!((arm.neighbor_mtu(), arm.operational_vls(), arm.state()), (4, 4, PortState::ARMED));
        assert_eq!((arm.lid(), arm.sm_lid(), arm.gid_prefix()), (Lid(9), Lid(4), Gid::DEFAULT_PREFIX));
        let untouched =
            (arm.width_enabled(), arm.speed_enabled(), arm.speed_ext_enabled(), arm.down_default());
        assert_eq!(untouched, (0, 0, 0, 0));
        near.set_neighbor_mtu(4).set_operational_vls(4).set_lid(Lid(9)).set_sm_lid(Lid(4));
        near.set_gid_prefix(Gid::DEFAULT_PREFIX).set_state(PortState::ARMED);
        assert_eq!(port(&near, Some(&far), &ME, Step::Arm), None);
        assert_eq!(port(&near, Some(&far), &ME, Step::Activate).unwrap().state(), PortState::ACTIVE);
        near.set_state(PortState::ACTIVE);
        assert_eq!(port(&near, Some(&far), &ME, Step::Activate), None);
        // Another manager's LID is set without touching the link.
        let other = Identity { lid: None, sm_lid: Lid(5), ..ME };
        let moved = port(&near, Some(&far), &other, Step::Arm).unwrap();
        assert_eq!((moved.state(), moved.lid(), moved.neighbor_mtu()), (PortState::NO_CHANGE, Lid(9), 4));
    }

    #[test]
    fn clients_are_asked_to_register_again_where_that_is_possible() {
        let mut near = at(PortState::ACTIVE, 4, 4);
        near.set_neighbor_mtu(4).set_operational_vls(4).set_lid(Lid(9)).set_sm_lid(Lid(4));
        near.set_gid_prefix(Gid::DEFAULT_PREFIX);
        let lost = Identity { reregister: true, ..ME };
        assert_eq!(port(&near, Some(&near), &lost, Step::Arm), None, "it cannot");
        near.set_capability_mask(capability::CLIENT_REREGISTER);
        assert_eq!(port(&near, Some(&near), &ME, Step::Arm), None, "nothing was lost");
        let asked = port(&near, Some(&near), &lost, Step::Arm).unwrap();
        assert!(asked.client_reregister() && asked.state() == PortState::NO_CHANGE);
        near.set_state(PortState::INITIALIZE);
        assert!(!port(&near, Some(&near), &lost, Step::Arm).unwrap().client_reregister());
    }

    #[test]
    fn a_link_that_is_down_is_never_made_active() {
        let down = at(PortState::DOWN, 5, 4);
        for step in [Step::Arm, Step::Activate] {
            assert_eq!(port(&down, Some(&down), &ME, step).unwrap().state(), PortState::NO_CHANGE);
        }
        assert_eq!(mtu_bytes(5), Some(4096));
        assert_eq!((mtu_bytes(0), mtu_bytes(6)), (None, None));
    }

    #[test]
    fn lmc_key_and_vls_go_to_ports_with_a_lid_and_links_that_are_not_active() {
        let near = at(PortState::INITIALIZE, 5, 4);
        let protection = Protection { key: ManagementKey::new(0x77), level: 2, lease: 60 };
        let all = Identity { lmc: 3, protection, most_vls: Some(2), high_limit: Some(9), ..ME };
        let end = port(&near, Some(&near), &all, Step::Arm).unwrap();
        assert_eq!((end.mask_control(), end.management_key(), end.key_protection()), (3, 0x77, 2));
        assert_eq!((end.key_lease(), end.operational_vls(), end.vl_high_limit()), (60, 2, 9));
        let external = Identity { lid: None, ..all };
        let switch = port(&near, Some(&near), &external, Step::Arm).unwrap();
        assert_eq!((switch.mask_control(), switch.management_key(), switch.key_protection()), (0, 0, 0));
        // With one VL there is nothing to arbitrate.
        let single = at(PortState::INITIALIZE, 5, 1);
        assert_eq!(port(&single, Some(&near), &all, Step::Arm).unwrap().vl_high_limit(), 0);
    }

    #[test]
    fn a_port_that_reports_something_else_than_it_was_given_is_found_out() {
        let protection = Protection { key: ManagementKey::new(5), ..Protection::NONE };
        let wanted = Identity { lmc: 2, protection, ..ME };
        let mut good = at(PortState::ARMED, 5, 4);
        good.set_lid(Lid(9)).set_mask_control(2).set_management_key(5);
        assert_eq!(not_taken(&good, &wanted), None);
        let said = |change: &dyn Fn(&mut PortInfo)| {
            let mut other = good;
            change(&mut other);
            not_taken(&other, &wanted).unwrap()
        };
        assert!(
            said(&|info| {
                info.set_mask_control(0);
            })
            .contains("LMC 0 where 2")
        );
        assert!(
            said(&|info| {
                info.set_lid(Lid(8));
            })
            .contains("LID 8 where 9")
        );
        let of_key = said(&|info| {
            info.set_management_key(6);
        });
        assert!(of_key.contains("M_Key") && !of_key.contains('5') && !of_key.contains('6'));
        assert_eq!(not_taken(&good, &Identity { lid: None, ..wanted }), None, "it has no LID of its own");
    }
}
