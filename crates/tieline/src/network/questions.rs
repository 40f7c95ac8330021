//! Questions about rails that travel by way of the managers, when no rail carries them: the importer's end
//! and the owner's.

use std::time::Duration;

use node_client::{ImportId, WeakClient};
use ofi::ANSWER_WORDS;
use proto::wire::program::ConnectionId;

use super::Network;
use super::exposed::Exposed;

type Ask = Box<dyn Fn(&[u8], Duration) -> Option<[u64; ANSWER_WORDS]> + Send + Sync>;

/// Asks the owner of an import; `None`: the managers have no answer in that time.
pub(super) fn by_managers(client: Option<WeakClient>, import: ImportId) -> Ask {
    Box::new(move |question, limit| {
        let client = client.as_ref().and_then(WeakClient::upgrade)?;
        answer_of(&client.ask_owner(import, question.to_vec(), limit).ok()?)
    })
}

impl Network {
    /// Answers an importer's question. If that fails, or comes too late, the importer asks again.
    pub(super) fn answer_about_rails(
        &self,
        exposed: &Exposed,
        (connection, number): (ConnectionId, u64),
        question: &[u8],
    ) {
        let client = self.client.get().and_then(WeakClient::upgrade);
        if let (Some(client), Some(answer)) = (client, exposed.answer(question)) {
            drop(client.answer_importer(connection, number, bytes_of(answer)));
        }
    }
}

fn bytes_of(answer: [u64; ANSWER_WORDS]) -> Vec<u8> {
    answer.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// `None`: it is none.
fn answer_of(bytes: &[u8]) -> Option<[u64; ANSWER_WORDS]> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: [_; ANSWER_WORDS] = words.try_into().ok()?;
    rest.is_empty().then(|| words.map(u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_arrives_as_it_was_and_what_is_none_is_refused() {
        let answer = [1, u64::MAX, 0, 0x0123_4567_89ab_cdef];
        let bytes = bytes_of(answer);
        assert_eq!(answer_of(&bytes), Some(answer));
        assert_eq!((answer_of(&bytes[1..]), answer_of(&[0; 33]), answer_of(&[])), (None, None, None));
    }
}
