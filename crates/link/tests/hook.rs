//! The hook counts what passes and injures what it was told to.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use link::hook::{Faults, HookLink};
use link::shm_link::ShmLink;
use link::{Grant, Link, LinkError, RemoteMemory};
use proto::ids::NodeId;
use shm::region::{Region, RegionOptions};

fn open(link: &dyn Link) -> (Region, Arc<dyn RemoteMemory>) {
    let owner = Region::create(&RegionOptions::new("hook-test", 4096)).unwrap();
    let memory = owner.fd().try_clone_to_owned().unwrap();
    let remote = link.open(Grant { node: NodeId::new(8).unwrap(), size_bytes: 4096, memory }).unwrap();
    (owner, remote)
}

fn byte(owner: &Region, at: usize) -> u8 {
    let mut byte = [0];
    owner.window().get(at, &mut byte).unwrap();
    byte[0]
}

#[test]
fn it_counts_operations_and_bytes() {
    let hook = HookLink::counting(Arc::new(ShmLink));
    let (_owner, remote) = open(&hook);
    remote.put(0, &[1; 10]).unwrap();
    remote.put(0, &[1; 20]).unwrap();
    remote.get(0, &mut [0; 5]).unwrap();
    remote.fetch_add_u64(0, 1).unwrap();
    remote.barrier().unwrap();
    let counts = hook.counts();
    assert_eq!((counts.opens, counts.puts, counts.put_bytes), (1, 2, 30));
    assert_eq!((counts.gets, counts.get_bytes, counts.atomics, counts.barriers), (1, 5, 1, 1));
}

#[test]
fn every_third_put_is_lost() {
    let hook = HookLink::injecting(Arc::new(ShmLink));
    hook.set_faults(Faults { lose_every: 3, ..Faults::default() }).unwrap();
    let (owner, remote) = open(&hook);
    (0..9).for_each(|at| remote.put(at, &[7]).unwrap());
    let arrived: Vec<u8> = (0..9).map(|at| byte(&owner, at)).collect();
    assert_eq!(arrived, [7, 7, 0, 7, 7, 0, 7, 7, 0]);
    assert_eq!(hook.counts().lost, 3);
}

#[test]
fn every_second_put_is_corrupted_in_its_first_byte() {
    let hook = HookLink::injecting(Arc::new(ShmLink));
    hook.set_faults(Faults { corrupt_every: 2, ..Faults::default() }).unwrap();
    let (owner, remote) = open(&hook);
    remote.put(0, &[7, 7]).unwrap();
    remote.put(2, &[7, 7]).unwrap();
    assert_eq!([byte(&owner, 0), byte(&owner, 1), byte(&owner, 2), byte(&owner, 3)], [7, 7, !7, 7]);
    assert_eq!(hook.counts().corrupted, 1);
}

#[test]
fn a_cut_link_fails_typed_and_heals() {
    let hook = HookLink::injecting(Arc::new(ShmLink));
    let (_owner, remote) = open(&hook);
    hook.set_faults(Faults { cut: true, ..Faults::default() }).unwrap();
    assert!(matches!(remote.put(0, &[1]), Err(LinkError::Injected)));
    assert!(matches!(remote.barrier(), Err(LinkError::Injected)));
    hook.set_faults(Faults::default()).unwrap();
    remote.put(0, &[1]).unwrap();
}

#[test]
fn a_map_that_faults_could_not_reach_is_refused_with_the_reason() {
    let hook = HookLink::injecting(Arc::new(ShmLink));
    let (_owner, remote) = open(&hook);
    let refused = remote.map().err().unwrap().to_string();
    assert!(
        refused.contains("cannot be lost or delayed") && refused.contains("use put and get"),
        "{refused}"
    );
}

#[test]
fn a_counting_hook_refuses_faults() {
    let hook = HookLink::counting(Arc::new(ShmLink));
    assert!(matches!(hook.set_faults(Faults::default()), Err(LinkError::NotSupported { .. })));
}
