//! Random numbers that no other program can guess: keys, tokens, sessions.

use crate::error::{OfiError, Result};

/// 64 random bits from the kernel.
pub fn random_u64() -> Result<u64> {
    let mut bytes = [0; 8];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match count {
        // Up to 256 bytes come whole, or not at all.
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        Ok(_) => Err(OfiError::System { call: "getrandom", reason: "it gave too few bytes".to_owned() }),
        Err(error) => Err(OfiError::System { call: "getrandom", reason: error.to_string() }),
    }
}
