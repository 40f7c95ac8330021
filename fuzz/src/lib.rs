//! What the fuzz targets have in common.
//!
//! What it is for: one property for all decoders of the control protocol.
//!
//! What it must never do: know a message's fields; that is what makes it hold for the next message too.
//!
//! Where to start reading: [`check`]; each file in `fuzz_targets/` calls it for one kind of message.
#![forbid(unsafe_code)]

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes from a stranger are a message or an error; a message can be said again and means the same.
pub fn check<T: Serialize + DeserializeOwned + PartialEq>(bytes: &[u8]) {
    let Ok(message) = proto::wire::decode::<T>(bytes) else { return };
    let Ok(again) = proto::wire::encode(&message) else { panic!("what was decoded cannot be encoded") };
    assert!(
        proto::wire::decode::<T>(&again).is_ok_and(|same| same == message),
        "it means something else now"
    );
}
