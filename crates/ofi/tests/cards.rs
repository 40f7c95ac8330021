//! Cards of peers that do not fit to this end: an error, before the provider reads anything of them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use ofi::{Endpoint, OfiError, Settings, Wanted, random_u64};

#[test]
fn an_address_of_another_family_or_length_is_refused() {
    let wanted = Wanted {
        provider: Some("tcp;ofi_rxm".to_owned()),
        source: Some([127, 0, 0, 1].into()),
        is_exact: false,
    };
    let end = match Endpoint::open(&wanted, Settings::default()) {
        Ok(end) => end,
        Err(error) => return println!("skipped: {error}"),
    };
    let card = end.card().unwrap();
    assert!(end.connect("a peer", &card, random_u64().unwrap()).is_ok());
    let mut of_another_family = card.clone();
    of_another_family.address[0] ^= 0xff;
    let mut shorter = card.clone();
    shorter.address.pop();
    let mut empty = card;
    empty.address.clear();
    for card in [of_another_family, shorter, empty] {
        let refused = end.connect("a peer", &card, random_u64().unwrap());
        assert!(matches!(refused, Err(OfiError::BadCard { .. })), "{refused:?}");
    }
}
