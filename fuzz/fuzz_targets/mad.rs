//! Management datagrams: a simulated fabric that is sent any bytes, and a client that gets any bytes as
//! answers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tieline_fuzz::datagrams(bytes));
