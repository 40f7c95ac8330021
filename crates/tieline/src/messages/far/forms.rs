//! What stands in memory that queues of different hosts put to: where, and in which form.
//!
//! Whoever polls memory may see a put half written: a link promises that puts become visible in their order,
//! but not that one becomes visible at once. So each form ends with a check of its words, and counts as there
//! when the check is right. The check also contains a key, by which what was meant for other memory, or for
//! earlier memory in the same place, is told apart. It is no seal: the peer can write whatever it likes, so
//! what the words say is checked as well.
//!
//! All words are in the byte order of the host. [`MAGIC`] reads differently on a host of another order, which
//! is refused by that.

use message_queue::Name;
use message_queue::name::NAME_BYTES;
use proto::ids::{NodeId, SegmentId};
use shm::sync::Ordering;
use shm::window::Window;

/// The last byte is raised when anything here, or in the records, means something else than before.
pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"tl-far\0\x01");

/// Memory of a pair: what its owner says of it.
pub(super) const HEADER_AT: usize = 0;
/// Where the memory is that the peer has made: written by the peer.
pub(super) const WELCOME_AT: usize = 128;
/// Up to where the peer has read what it was sent: written by the peer.
pub(super) const CREDIT_AT: usize = 192;
/// Up to where the peer has written into the ring: written by the peer.
pub(super) const TAIL_AT: usize = 256;
/// The ring for records of the peer.
pub(super) const RING_AT: usize = 512;

const WORD_BYTES: usize = 8;
const NAME_WORDS: usize = NAME_BYTES / WORD_BYTES;

/// Spreads the bits of a word (the last step of splitmix64).
const fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn check(words: &[u64], key: u64) -> u64 {
    words.iter().fold(mixed(key.wrapping_add(MAGIC)), |sum, word| mixed(sum ^ word).wrapping_add(1))
}

/// Bytes of a form of so many words.
pub(super) const fn form_bytes(words: usize) -> usize {
    (words + 1) * WORD_BYTES
}

/// A form as it is put.
pub(super) fn form(words: &[u64], key: u64) -> Vec<u8> {
    words.iter().chain([&check(words, key)]).flat_map(|word| word.to_ne_bytes()).collect()
}

/// Writes a form of one word into memory of this process.
pub(super) fn store(memory: &Window<'_>, at: usize, word: u64, key: u64) -> shm::Result<()> {
    memory.store_u64(at, word)?;
    memory.store_u64(at + WORD_BYTES, check(&[word], key))
}

/// The words of a form, if it is there, whole and of that key.
pub(super) fn read<const WORDS: usize>(memory: &Window<'_>, at: usize, key: u64) -> Option<[u64; WORDS]> {
    let mut words = [0; WORDS];
    for (nth, word) in words.iter_mut().enumerate() {
        // Acquire: what was put before this form is seen by those who have seen it. There is no Release of
        // this process that it pairs with: the provider writes the bytes.
        *word = memory.atomic_u64(at + nth * WORD_BYTES).ok()?.load(Ordering::Acquire);
    }
    let sum = memory.atomic_u64(at + WORDS * WORD_BYTES).ok()?.load(Ordering::Acquire);
    (sum == check(&words, key)).then_some(words)
}

fn words_of(name: &Name) -> [u64; NAME_WORDS] {
    let bytes = name.bytes();
    std::array::from_fn(|nth| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[nth * WORD_BYTES + byte])))
}

fn name_of(words: &[u64]) -> Option<Name> {
    let mut bytes = [0; NAME_BYTES];
    for (place, word) in bytes.chunks_exact_mut(WORD_BYTES).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    Name::of_any_machine(&bytes)
}

/// What the owner of a pair's memory says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) owner: Name,
    /// The only one that is to write here.
    pub(super) peer: Name,
    pub(super) ring_bytes: u64,
    /// The key of all forms that the peer writes here, and of the places in its records.
    pub(super) key: u64,
}

const HEADER_WORDS: usize = 1 + 2 * NAME_WORDS + 2;
pub(super) const HEADER_BYTES: usize = form_bytes(HEADER_WORDS);

impl Header {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = [&[MAGIC][..], &words_of(&self.owner), &words_of(&self.peer)].concat();
        form(&[words, vec![self.ring_bytes, self.key]].concat(), 0)
    }

    pub(super) fn of_bytes(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let words: [u64; HEADER_WORDS] = words_in(bytes, 0)?;
        let (first, rest) = words.split_first()?;
        let (owner, rest) = rest.split_at_checked(NAME_WORDS)?;
        let (peer, rest) = rest.split_at_checked(NAME_WORDS)?;
        let [ring_bytes, key] = *rest else { return None };
        if *first != MAGIC {
            return None;
        }
        Some(Self { owner: name_of(owner)?, peer: name_of(peer)?, ring_bytes, key })
    }
}

/// The words of a form that was copied out of other memory.
fn words_in<const WORDS: usize>(bytes: &[u8], key: u64) -> Option<[u64; WORDS]> {
    let mut all = bytes.chunks_exact(WORD_BYTES).map(|word| word.try_into().map(u64::from_ne_bytes));
    let mut words = [0; WORDS];
    for word in &mut words {
        *word = all.next()?.ok()?;
    }
    (all.next()?.ok()? == check(&words, key)).then_some(words)
}

/// A request to a queue: who wants to exchange messages with it, and which memory it has made for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) from: Name,
    pub(super) to: Name,
    pub(super) node: NodeId,
    pub(super) segment: SegmentId,
    /// The key of that memory.
    pub(super) key: u64,
}

const HELLO_WORDS: usize = 2 * NAME_WORDS + 3;
pub(super) const HELLO_BYTES: usize = form_bytes(HELLO_WORDS);
/// The key of forms that strangers write.
const HELLO_KEY: u64 = 0x0068_656c_6c6f;

impl Hello {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = [words_of(&self.from), words_of(&self.to)].concat();
        let numbers = vec![u64::from(self.node.get()), u64::from(self.segment.0), self.key];
        form(&[words, numbers].concat(), HELLO_KEY)
    }

    pub(super) fn read(memory: &Window<'_>, at: usize) -> Option<Self> {
        let words: [u64; HELLO_WORDS] = read(memory, at, HELLO_KEY)?;
        let (from, rest) = words.split_at_checked(NAME_WORDS)?;
        let (to, rest) = rest.split_at_checked(NAME_WORDS)?;
        let [node, segment, key] = *rest else { return None };
        Some(Self {
            from: name_of(from)?,
            to: name_of(to)?,
            node: NodeId::new(u32::try_from(node).ok()?).ok()?,
            segment: SegmentId(u32::try_from(segment).ok()?),
            key,
        })
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Welcome {
    /// Which memory the other one has made.
    At(SegmentId),
    /// It has lost the one who has asked, and does not meet it again.
    Never,
}

/// Whoever does not know this word takes it for no answer.
const NEVER: u64 = u64::MAX;

/// The answer as it is put into the memory of who has asked, with its key.
pub(super) fn welcome(answer: Welcome, key: u64) -> Vec<u8> {
    let word = match answer {
        Welcome::At(segment) => u64::from(segment.0),
        Welcome::Never => NEVER,
    };
    form(&[word], key)
}

/// What the peer has answered, if it has.
pub(super) fn read_welcome(memory: &Window<'_>, key: u64) -> Option<Welcome> {
    let [word] = read(memory, WELCOME_AT, key)?;
    if word == NEVER {
        return Some(Welcome::Never);
    }
    u32::try_from(word).ok().map(|segment| Welcome::At(SegmentId(segment)))
}

const _: () = assert!(HEADER_AT + HEADER_BYTES <= WELCOME_AT && WELCOME_AT + form_bytes(1) <= CREDIT_AT);
const _: () = assert!(CREDIT_AT + form_bytes(1) <= TAIL_AT && TAIL_AT + form_bytes(1) <= RING_AT);

#[cfg(test)]
mod tests {
    use super::*;
    use shm::region::{Region, RegionOptions};

    #[test]
    fn forms_survive_the_way_and_are_there_only_when_they_are_whole() {
        let region = Region::create(&RegionOptions::new("forms", 4096)).unwrap();
        let window = region.window();
        assert_eq!(read::<1>(&window, 0, 7), None, "zeros are no form");
        let bytes = form(&[5], 7);
        for written in 0..bytes.len() {
            window.put(0, &bytes[..written]).unwrap();
            assert_eq!(read::<1>(&window, 0, 7), None, "{written} bytes");
        }
        window.put(0, &bytes).unwrap();
        assert_eq!((read::<1>(&window, 0, 7), read::<1>(&window, 0, 8)), (Some([5]), None));
        // Half of the next one over it, from either side.
        let next = form(&[0x1234_5678_9abc_def0], 7);
        for written in 1..next.len() {
            window.put(0, &bytes).unwrap();
            window.put(0, &next[..written]).unwrap();
            assert_eq!(read::<1>(&window, 0, 7), None, "its first {written} bytes");
            window.put(0, &bytes).unwrap();
            window.put(written, &next[written..]).unwrap();
            assert_eq!(read::<1>(&window, 0, 7), None, "all but its first {written} bytes");
        }
    }

    #[test]
    fn who_asks_and_who_owns_are_known_by_their_words() {
        let region = Region::create(&RegionOptions::new("forms", 4096)).unwrap();
        let (from, to) = (Name::new().unwrap(), Name::new().unwrap());
        let hello = Hello { from, to, node: NodeId::new(8).unwrap(), segment: SegmentId(9), key: u64::MAX };
        region.window().put(64, &hello.bytes()).unwrap();
        assert_eq!(Hello::read(&region.window(), 64), Some(hello));
        // Words that are whole, and of no node.
        let mut words: Vec<u64> = [words_of(&from), words_of(&to)].concat();
        words.extend([7, 9, 1]);
        region.window().put(64, &form(&words, HELLO_KEY)).unwrap();
        assert_eq!(Hello::read(&region.window(), 64), None);
        let header = Header { owner: from, peer: to, ring_bytes: 4096, key: 3 };
        let mut bytes: [u8; HEADER_BYTES] = header.bytes().try_into().unwrap();
        assert_eq!(Header::of_bytes(&bytes), Some(header));
        bytes[9] ^= 1;
        assert_eq!(Header::of_bytes(&bytes), None);
        for answer in [Welcome::At(SegmentId(77)), Welcome::At(SegmentId(u32::MAX)), Welcome::Never] {
            region.window().put(WELCOME_AT, &welcome(answer, 3)).unwrap();
            assert_eq!(read_welcome(&region.window(), 3), Some(answer));
            assert_eq!(read_welcome(&region.window(), 4), None);
        }
    }
}
