//! One-time tokens: each lets its holder have one certificate, until it expires.
//!
//! The directory of the authority keeps a hash of the secret, never the secret. A token is used up by
//! removing its file, which succeeds once.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proto::ids::NodeId;
use sha2::{Digest, Sha256};

use crate::authority::Fingerprint;
use crate::error::{Result, TrustError};
use crate::hex;
use crate::store::{Store, random};

pub(crate) const FOLDER: &str = "tokens";
/// How long a token is valid unless something else is asked for.
pub const USUAL_LIFE: Duration = Duration::from_secs(3600);
const PREFIX: &str = "tl1";

/// What is printed once.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Which token.
    pub id: [u8; 8],
    /// Proves it.
    pub secret: [u8; 16],
    /// Whose it is.
    pub authority: Fingerprint,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &hex::encode(&self.id)).finish_non_exhaustive()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, secret) = (hex::encode(&self.id), hex::encode(&self.secret));
        write!(f, "{PREFIX}-{id}-{secret}-{}", self.authority)
    }
}

impl FromStr for Token {
    type Err = TrustError;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.trim().split('-');
        let mut next = || parts.next().ok_or(TrustError::NotAToken);
        if next()? != PREFIX {
            return Err(TrustError::NotAToken);
        }
        let id = hex::decode(next()?).ok_or(TrustError::NotAToken)?;
        let secret = hex::decode(next()?).ok_or(TrustError::NotAToken)?;
        let authority = Fingerprint(hex::decode(next()?).ok_or(TrustError::NotAToken)?);
        match parts.next() {
            None => Ok(Self { id, secret, authority }),
            Some(_) => Err(TrustError::NotAToken),
        }
    }
}

fn file_of(id: [u8; 8]) -> String {
    format!("{FOLDER}/{}", hex::encode(&id))
}

/// Makes a token that is valid until `expires`, for this node or for any that has no certificate yet.
pub fn issue(
    store: &Store,
    authority: Fingerprint,
    node: Option<NodeId>,
    expires: SystemTime,
) -> Result<Token> {
    let token = Token { id: random()?, secret: random()?, authority };
    let hash = hex::encode(&Sha256::digest(token.secret));
    let expires_s = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let node = node.map_or(0, NodeId::get);
    store.make_dir(FOLDER)?;
    store.write(&file_of(token.id), format!("{hash} {expires_s} {node}\n").as_bytes())?;
    Ok(token)
}

/// A token that was found good, and is not used up yet.
#[derive(Debug)]
pub struct Checked {
    file: String,
    /// The node that it is for, if it is for one.
    pub node: Option<NodeId>,
}

/// Checks what somebody shows.
pub fn check(store: &Store, id: [u8; 8], secret: [u8; 16], now: SystemTime) -> Result<Checked> {
    let file = file_of(id);
    let Some(bytes) = store.read(&file)? else { return Err(TrustError::UnknownToken) };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut words = text.split_whitespace();
    let mut word = || words.next().ok_or_else(|| store.damaged(&file, "a word is missing"));
    // Of the hashes nothing can be learned by how long it takes to compare them: they are not secret.
    if word()? != hex::encode(&Sha256::digest(secret)) {
        return Err(TrustError::UnknownToken);
    }
    let number = |word: &str| word.parse::<u64>().map_err(|_| store.damaged(&file, "a number is missing"));
    let expires = UNIX_EPOCH + Duration::from_secs(number(word()?)?);
    let node = number(word()?)?;
    if now >= expires {
        store.remove(&file)?;
        return Err(TrustError::ExpiredToken);
    }
    let node = u32::try_from(node).ok().and_then(|node| NodeId::new(node).ok());
    Ok(Checked { file, node })
}

/// Uses it up: the second who tries is refused.
pub fn use_up(store: &Store, checked: Checked) -> Result<()> {
    if store.remove(&checked.file)? { Ok(()) } else { Err(TrustError::UnknownToken) }
}

/// Those that were made for this node are not good any more.
pub(crate) fn forget_those_of(store: &Store, node: NodeId) -> Result<()> {
    for name in store.names_in(FOLDER)? {
        let file = format!("{FOLDER}/{name}");
        let bytes = store.read(&file)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        if text.split_whitespace().nth(2) == Some(node.to_string().as_str()) {
            store.remove(&file)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let root = tempfile::tempdir().unwrap();
        let store = Store::create(&root.path().join("c")).unwrap();
        (root, store)
    }

    #[test]
    fn a_token_survives_being_printed_and_nothing_else_is_one() {
        let (_root, store) = store();
        let token = issue(&store, Fingerprint([7; 32]), None, SystemTime::now()).unwrap();
        let text = token.to_string();
        assert_eq!(text.parse::<Token>().unwrap(), token);
        assert_eq!(format!("  {text}\n").parse::<Token>().unwrap(), token);
        assert!(!format!("{token:?}").contains(&hex::encode(&token.secret)));
        for wrong in ["", "tl1", "tl2-00-00-00", &text[1..], &text[..text.len() - 1], &format!("{text}-00")] {
            assert!(matches!(wrong.parse::<Token>(), Err(TrustError::NotAToken)), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_used_once_and_in_time() {
        let (_root, store) = store();
        let now = SystemTime::now();
        let node = NodeId::new(8).unwrap();
        let token = issue(&store, Fingerprint([7; 32]), Some(node), now + USUAL_LIFE).unwrap();
        let refused = |error| matches!(error, TrustError::UnknownToken);
        assert!(refused(check(&store, token.id, [0; 16], now).unwrap_err()));
        assert!(refused(check(&store, [0; 8], token.secret, now).unwrap_err()));
        // Two who show it at the same time.
        let first = check(&store, token.id, token.secret, now).unwrap();
        let second = check(&store, token.id, token.secret, now).unwrap();
        assert_eq!(first.node, Some(node));
        use_up(&store, first).unwrap();
        assert!(refused(use_up(&store, second).unwrap_err()));
        assert!(refused(check(&store, token.id, token.secret, now).unwrap_err()));

        let late = issue(&store, Fingerprint([7; 32]), None, now + USUAL_LIFE).unwrap();
        let error = check(&store, late.id, late.secret, now + USUAL_LIFE).unwrap_err();
        assert!(matches!(error, TrustError::ExpiredToken));
        // It is gone for good, whatever the clock says afterwards.
        assert!(refused(check(&store, late.id, late.secret, now).unwrap_err()));
    }

    #[test]
    fn the_secret_is_in_no_file() {
        let (_root, store) = store();
        let token = issue(&store, Fingerprint([7; 32]), None, SystemTime::now()).unwrap();
        let text = store.text(&file_of(token.id)).unwrap();
        assert!(!text.contains(&hex::encode(&token.secret)));
    }
}
