//! Cables that go down and up again and again.

use std::time::Duration;

use mad::in_process::InProcess;
use mad::sm::attribute;
use mad::values::PortState;
use seeded_random::SplitMix64;
use topology::PortIx;

use super::{Lab, attend, between_switches, brought_up, repairs, tree, whole};
use crate::{Event, Manager, Options};

fn options() -> Options {
    Options {
        light_sweep: Duration::from_millis(100),
        quarantine: Duration::from_secs(30),
        ..Options::default()
    }
}

/// Attends for some milliseconds of virtual time.
fn attend_for(manager: &mut Manager, transport: &mut InProcess<Lab>, milliseconds: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let until = mad::MadTransport::now(transport) + Duration::from_millis(milliseconds);
    manager.attend(transport, Some(until), &mut |event| events.push(event), &|| false).unwrap();
    events
}

fn blocks(lab: &Lab) -> u64 {
    lab.sets.get(&attribute::LINEAR_TABLE).copied().unwrap_or(0)
}

/// One cable in twenty flaps for a minute: at no moment there is a loop or credit loop, two seconds after the
/// last change nothing more is set, and three times as many Sets as it takes to take all of them away and
/// back are enough.
#[test]
fn a_minute_of_flapping_cables() {
    let graph = tree();
    let mut random = SplitMix64::new(128);
    let mut cables = between_switches(&graph);
    random.shuffle(&mut cables);
    cables.truncate(cables.len() / 20);
    assert_eq!(cables.len(), 12);
    // The least: each goes once, when it first does, and comes back once.
    let mut transport = InProcess::new(Lab::new(graph.clone()));
    let (mut manager, _) = brought_up(&mut transport, options());
    let before = blocks(&transport.fabric);
    for pulls in [true, false] {
        for cable in &cables {
            let agents = &mut transport.fabric.agents;
            assert!(if pulls { agents.unlink(*cable) } else { agents.relink(*cable) });
            attend(&mut manager, &mut transport, 5);
        }
    }
    whole(&transport.fabric);
    let least = blocks(&transport.fabric) - before;

    let mut transport = InProcess::new(Lab::new(graph));
    let (mut manager, _) = brought_up(&mut transport, options());
    transport.fabric.watched = true;
    let before = blocks(&transport.fabric);
    let (mut quarantined, mut falls) = (0, 0);
    let mut next: Vec<(u64, PortIx, bool)> =
        cables.iter().map(|cable| (random.below(2_000) as u64, *cable, true)).collect();
    let (mut now, end) = (0, 60_000);
    while let Some(at) = next.iter().map(|one| one.0).min().filter(|at| *at < end) {
        for event in attend_for(&mut manager, &mut transport, at - now) {
            if let Event::Repaired(repaired) = event {
                quarantined += repaired.quarantined.len();
            }
        }
        now = at;
        for (due, cable, falling) in next.iter_mut().filter(|one| one.0 <= at) {
            let agents = &mut transport.fabric.agents;
            let _ = if *falling { agents.unlink(*cable) } else { agents.relink(*cable) };
            falls += usize::from(*falling);
            (*due, *falling) = (at + 300 + random.below(4_000) as u64, !*falling);
        }
    }
    for (_, cable, falling) in &next {
        if !falling {
            transport.fabric.agents.relink(*cable);
        }
    }
    attend_for(&mut manager, &mut transport, 2_000);
    let settled = blocks(&transport.fabric);
    attend_for(&mut manager, &mut transport, 5_000);
    assert_eq!(blocks(&transport.fabric), settled, "two seconds after the last change it is settled");
    assert!(falls > 100 && quarantined >= cables.len(), "{falls} falls, {quarantined} in quarantine");
    // When they have been up for long enough, they are let back.
    attend(&mut manager, &mut transport, 300);
    whole(&transport.fabric);
    let sent = blocks(&transport.fabric) - before;
    assert!(sent <= 3 * least, "{sent} Sets of LFT blocks, and the least are {least}");
    assert_eq!(transport.fabric.bad, Vec::<String>::new());
}

#[test]
fn a_cable_without_which_nothing_leads_there_is_not_held_back() {
    let graph = topology::build::fat_tree(&topology::build::FatTree::new(2, 2)).unwrap();
    let mut transport = InProcess::new(Lab::new(graph));
    let (mut manager, up) = brought_up(&mut transport, options());
    assert!(up.is_good(), "{up:?}");
    let cable = between_switches(transport.fabric.agents.graph())[0];
    for _ in 0..6 {
        transport.fabric.agents.unlink(cable);
        attend(&mut manager, &mut transport, 3);
        transport.fabric.agents.relink(cable);
        let events = attend(&mut manager, &mut transport, 3);
        assert!(
            events.iter().all(|event| !matches!(event, Event::Repaired(it) if !it.quarantined.is_empty()))
        );
        assert_eq!(transport.fabric.agents.port_info(cable).state(), PortState::ACTIVE);
    }
}

#[test]
fn a_held_cable_stays_so_over_a_sweep_and_comes_back() {
    let mut transport = InProcess::new(Lab::new(tree()));
    let (mut manager, _) = brought_up(&mut transport, options());
    let cable = between_switches(transport.fabric.agents.graph())[9];
    let mut held = Vec::new();
    for _ in 0..3 {
        transport.fabric.agents.unlink(cable);
        attend_for(&mut manager, &mut transport, 1_000);
        transport.fabric.agents.relink(cable);
        let events = attend_for(&mut manager, &mut transport, 1_000);
        held.extend(repairs(&events).iter().flat_map(|it| it.quarantined.clone()));
    }
    assert_eq!(transport.fabric.agents.port_info(cable).state(), PortState::INITIALIZE, "{held:?}");
    manager.need = Some("a test".to_owned());
    let events = attend_for(&mut manager, &mut transport, 2_000);
    let Event::BroughtUp(_, up) = &events[0] else { panic!("{events:?}") };
    assert_eq!((up.links, up.active_links, up.lost_pairs), (383, 383, 0));
    assert_eq!(transport.fabric.agents.port_info(cable).state(), PortState::INITIALIZE);
    let events = attend(&mut manager, &mut transport, 40);
    let back = repairs(&events);
    assert!(back.iter().any(|it| it.cause.starts_with("the quarantine of") && it.up.len() == 1), "{back:?}");
    whole(&transport.fabric);
}
