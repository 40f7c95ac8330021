//! What a manager says to its programs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto::wire::program::ToProgram;

fuzz_target!(|bytes: &[u8]| tieline_fuzz::check::<ToProgram>(bytes));
