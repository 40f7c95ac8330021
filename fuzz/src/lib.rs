//! What the targets have in common.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes from a stranger are a message or an error; a message can be said again and means the same.
pub fn check<T: Serialize + DeserializeOwned + PartialEq>(bytes: &[u8]) {
    let Ok(message) = proto::wire::decode::<T>(bytes) else { return };
    let Ok(again) = proto::wire::encode(&message) else { panic!("what was decoded cannot be encoded") };
    assert!(proto::wire::decode::<T>(&again).is_ok_and(|same| same == message), "it means something else now");
}
