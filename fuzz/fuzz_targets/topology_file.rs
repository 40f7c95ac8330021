//! Files that somebody says are a fabric's topology.
#![no_main]

use libfuzzer_sys::fuzz_target;
use topology::read::{Format, read};

fuzz_target!(|bytes: &[u8]| {
    for forced in Format::ALL.map(Some).into_iter().chain([None]) {
        let Ok(reading) = read(bytes, forced) else { continue };
        for (a, b) in reading.graph.links() {
            assert!(reading.graph.peer(b) == Some(a) && reading.graph.number(a) > 0, "a cable with one end");
        }
        let confidence = topology::recognise::recognise(&reading.graph).confidence;
        assert!((0.0..=1.0).contains(&confidence), "a confidence of {confidence}");
    }
});
