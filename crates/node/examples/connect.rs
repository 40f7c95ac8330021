//! How long it takes to connect to a segment of another node and map it: request to the own manager, from
//! there to the other one, and back. `connect FROM TO [COUNT]`, with the managers of both nodes running.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use node_client::{AttachOptions, Client};
use proto::ids::{NodeId, SegmentId, SegmentKey};
use proto::wire::program::Access;
use shm::region::{MapAccess, Region, RegionOptions};

fn attach(node: NodeId) -> Result<Client, Box<dyn Error>> {
    let options =
        AttachOptions { node: Some(node), name: Some("connect".into()), ..AttachOptions::default() };
    Ok(Client::attach(&options, |_| {})?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let id = |index: usize| -> Result<NodeId, Box<dyn Error>> {
        Ok(arguments.get(index).ok_or("use: connect FROM TO [COUNT]")?.parse::<NodeId>()?)
    };
    let (from, to) = (attach(id(0)?)?, attach(id(1)?)?);
    let count: usize = arguments.get(2).map_or(Ok(1000), |text| text.parse())?;
    let key = SegmentKey::Segment(SegmentId(7));
    let memory = Region::create(&RegionOptions::new("connect", 4096))?;
    to.create_segment(key, 4096, Access::default(), memory.fd())?;
    to.set_available(key, true, false)?;
    let mut connected = Vec::with_capacity(count);
    let mut probed = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        let (import, fd, _) = from.connect_segment(to.node(), key)?;
        let region = Region::open(fd, MapAccess::ReadWrite)?;
        region.window().atomic_u64(0)?;
        connected.push(start.elapsed());
        drop(region);
        from.disconnect(&import)?;
        let start = Instant::now();
        from.probe(to.node())?;
        probed.push(start.elapsed());
    }
    for (what, times) in [("connect and map", &mut connected), ("round trip to the own manager", &mut probed)]
    {
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        println!("{what}: min {:?}, median {:?}, 90 % {:?}, 99 % {:?}", at(0), at(50), at(90), at(99));
    }
    Ok(())
}
