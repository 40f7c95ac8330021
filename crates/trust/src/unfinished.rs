//! The file that marks the making of an authority as unfinished: what a killed process leaves is recognised
//! by it, and removed by the next attempt.

use crate::authority::{CERTIFICATE, CLUSTER, KEY};
use crate::error::Result;
use crate::hosts;
use crate::store::{Lock, Store};
use crate::token;

/// Empty, so that it is there as a whole or not at all.
const FILE: &str = "unfinished";

/// From now on what is in the directory is the beginning of an authority.
pub(crate) fn begin(store: &Store, _lock: &Lock) -> Result<()> {
    store.make_new(FILE).map(drop)
}

/// It is whole.
pub(crate) fn end(store: &Store, _lock: &Lock) -> Result<()> {
    store.remove(FILE).map(drop)
}

/// Removes what there is of an authority that did not become whole. Who has the lock sees the files of nobody
/// who is at work.
pub(crate) fn clear(store: &Store, lock: &Lock) -> Result<()> {
    if !store.has(FILE) {
        return Ok(());
    }
    // The key comes last: only the end was not noted.
    if !store.has(KEY) {
        let is_of_node = |name: &String| {
            let kind = name.strip_prefix("node-").and_then(|rest| rest.split_once('.'));
            kind.is_some_and(|(_, kind)| ["crt", "key", "address"].contains(&kind))
        };
        let names = store.names()?;
        let of_nodes = names.iter().filter(|name| is_of_node(name)).map(String::as_str);
        // Without the certificates the rest is of no use.
        for name in of_nodes.chain([CERTIFICATE, CLUSTER, hosts::FILE]).filter(|name| store.has(name)) {
            store.remove(name)?;
        }
        store.remove_dir_if_empty(token::FOLDER);
        store.remove_early();
    }
    end(store, lock)
}
