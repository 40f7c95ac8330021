//! What programs say to their manager.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::wire::program::ToManager;

fuzz_target!(|bytes: &[u8]| tieline_fuzz::check::<ToManager>(bytes));
