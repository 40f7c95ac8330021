//! What managers say to each other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::wire::peer::PeerMessage;

fuzz_target!(|bytes: &[u8]| tieline_fuzz::check::<PeerMessage>(bytes));
