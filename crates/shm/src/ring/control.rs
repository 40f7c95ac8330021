//! The control word that begins every line of a ring.
//!
//! A ring's data is a row of lines of 64 bytes. Word 0 of a line is its control word, words 1 to 7 hold
//! payload. A reader thus finds a small record and the word that announces it in one cache line, and up to
//! seven records in it.
//!
//! | bits | short line | long record | wrap |
//! |---|---|---|---|
//! | 63 | closed: the next record is in the next line | 1 | 1 |
//! | 61–62 | 0 | 1 | 2 |
//! | 0–41 | 7 fields of 6 bits: length + 1 of the record that begins in this word, else 0 | length in bytes (0–31) | 0 |
//! | others | 0 | 0 | 0 |
//!
//! A long record begins in word 1 and runs on through the following lines, whose words are all payload. A
//! wrap says that the next line is the first of the ring. The word 0 says that nothing has been written here
//! in this lap: a writer clears the control word of the *next* line before it announces the first record of a
//! line, so bytes of an earlier lap can never be taken for a control word.

/// Bytes in a line.
pub(super) const LINE_BYTES: usize = 64;
/// Words in a line.
pub(super) const LINE_WORDS: usize = LINE_BYTES / 8;
/// Payload words in a line.
pub(super) const PAYLOAD_WORDS: u32 = LINE_WORDS as u32 - 1;
/// Longest record that shares its line with the control word.
pub(super) const SHORT_MAX_BYTES: usize = PAYLOAD_WORDS as usize * 8;

/// The next record lies in the next line.
pub(super) const CLOSED: u64 = 1 << 63;
/// The next line is the first line of the ring. The whole control word.
pub(super) const WRAP: u64 = CLOSED | 2 << KIND_SHIFT;
/// A long record: the low half of the word is its length.
const LONG: u64 = CLOSED | 1 << KIND_SHIFT;

const KIND_SHIFT: u32 = 61;
/// Bits of one field of a short line.
pub(super) const FIELD_BITS: u32 = 6;
const FIELD_MASK: u64 = (1 << FIELD_BITS) - 1;
const FIELDS_MASK: u64 = (1 << (FIELD_BITS * PAYLOAD_WORDS)) - 1;

const _: () = assert!(LINE_BYTES == 64 && SHORT_MAX_BYTES == 56);
// Every short length, plus one, fits its field.
const _: () = assert!((SHORT_MAX_BYTES as u64) < FIELD_MASK);
// The fields leave the kind and the closed bit alone.
const _: () = assert!(FIELDS_MASK >> KIND_SHIFT == 0 && u32::MAX as u64 & LONG == 0);

/// The meaning of a control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// Short records: the fields, without the closed bit.
    Short { fields: u64, closed: bool },
    /// One long record of that many bytes.
    Long { len: u32 },
    /// Go on at the ring's first line.
    Wrap,
    /// No writer makes this word.
    Nonsense,
}

/// Reads a control word that may hold anything.
#[inline]
pub(super) fn decode(word: u64) -> Control {
    if word & !(FIELDS_MASK | CLOSED) == 0 {
        Control::Short { fields: word & FIELDS_MASK, closed: word & CLOSED != 0 }
    } else if word & !u64::from(u32::MAX) == LONG {
        Control::Long { len: word as u32 }
    } else if word == WRAP {
        Control::Wrap
    } else {
        Control::Nonsense
    }
}

/// Whether a control word is one of a line of short records.
#[inline]
pub(super) fn is_short(word: u64) -> bool {
    word & !(FIELDS_MASK | CLOSED) == 0
}

/// The fields of such a word.
#[inline]
pub(super) fn fields(word: u64) -> u64 {
    word & FIELDS_MASK
}

/// The control word of a long record.
#[inline]
pub(super) fn long(len: u32) -> u64 {
    LONG | u64::from(len)
}

/// The field of a record of `len` (at most [`SHORT_MAX_BYTES`]) bytes that begins in payload word `at` (0 to
/// 6).
#[inline]
pub(super) const fn field(len: usize, at: u32) -> u64 {
    (len as u64 + 1) << (FIELD_BITS * at)
}

/// The fields of seven records of 8 bytes.
pub(super) const WORDS: u64 = {
    let (mut fields, mut at) = (0, 0);
    while at < PAYLOAD_WORDS {
        fields |= 9 << (FIELD_BITS * at);
        at += 1;
    }
    fields
};

/// The fields of `count` (1 to 7) records of 8 bytes, the first of which begins in payload word `at` (0 to
/// 6).
#[inline]
pub(super) fn words(count: u32, at: u32) -> u64 {
    (WORDS >> (FIELD_BITS * (PAYLOAD_WORDS - count))) << (FIELD_BITS * at)
}

/// The control words of lines that hold so many records of 8 bytes and nothing else; a full one is closed.
pub(super) const OF_WORDS: [u64; LINE_WORDS] = {
    let (mut words, mut count) = ([0; LINE_WORDS], 1);
    while count < LINE_WORDS {
        words[count] = WORDS >> (FIELD_BITS * (PAYLOAD_WORDS - count as u32));
        count += 1;
    }
    words[PAYLOAD_WORDS as usize] |= CLOSED;
    words
};

/// With how many records of 8 bytes these fields begin.
#[inline]
pub(super) fn leading_words(fields: u64) -> u32 {
    ((fields ^ WORDS).trailing_zeros() / FIELD_BITS).min(PAYLOAD_WORDS)
}

/// The lowest field: 0 if no record begins there, else its length + 1.
#[inline]
pub(super) fn first_field(fields: u64) -> u64 {
    fields & FIELD_MASK
}

/// Payload words that a short record takes: at least one, so that an empty record has a field.
///
/// For the lengths that a field can hold but a line cannot (57 to 62) it is 8, more than a line has.
#[inline]
pub(super) fn short_words(len: usize) -> u32 {
    (len.div_ceil(8) as u32).max(1)
}

/// Lines that a long record of `len` bytes takes.
#[inline]
pub(super) fn long_lines(len: usize) -> u64 {
    // One word of the first line is the control word. Cannot overflow: lengths are below 2^32.
    (len as u64 + 8).div_ceil(LINE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_layout_reads_back() {
        for at in 0..PAYLOAD_WORDS {
            for len in 0..=SHORT_MAX_BYTES {
                for closed in [false, true] {
                    let word = field(len, at) | if closed { CLOSED } else { 0 };
                    let Control::Short { fields, closed: read } = decode(word) else { panic!("{word:#x}") };
                    assert_eq!(read, closed);
                    assert_eq!(first_field(fields >> (FIELD_BITS * at)), len as u64 + 1);
                    assert_eq!(fields & !(FIELD_MASK << (FIELD_BITS * at)), 0);
                }
            }
        }
    }

    #[test]
    fn lines_of_words_are_told_apart() {
        for at in 0..PAYLOAD_WORDS {
            for count in 1..=PAYLOAD_WORDS - at {
                let fields = (at..at + count).fold(0, |fields, at| fields | field(8, at));
                assert_eq!(words(count, at), fields);
                assert_eq!(leading_words(fields >> (FIELD_BITS * at)), count);
                assert_eq!(leading_words(fields), if at == 0 { count } else { 0 });
                // Another record behind them, and one before.
                if at + count < PAYLOAD_WORDS {
                    assert_eq!(leading_words((fields | field(3, at + count)) >> (FIELD_BITS * at)), count);
                }
            }
        }
        for (count, &word) in OF_WORDS.iter().enumerate().skip(1) {
            let closed = if count == PAYLOAD_WORDS as usize { CLOSED } else { 0 };
            assert_eq!(word, words(count as u32, 0) | closed);
        }
        assert_eq!(leading_words(0), 0);
    }

    #[test]
    fn long_and_wrap_read_back_and_nothing_else_does() {
        for len in [0, 57, 4096, u32::MAX] {
            assert_eq!(decode(long(len)), Control::Long { len });
        }
        assert_eq!(decode(WRAP), Control::Wrap);
        let not_closed = [long(57) & !CLOSED, WRAP & !CLOSED];
        for word in
            [WRAP | 1, 3 << KIND_SHIFT, long(57) | 1 << 40, 1 << 42, u64::MAX].into_iter().chain(not_closed)
        {
            assert_eq!(decode(word), Control::Nonsense, "{word:#x}");
        }
    }

    #[test]
    fn sizes_in_words_and_lines() {
        assert_eq!([0, 1, 8, 9, 56].map(short_words), [1, 1, 1, 2, 7]);
        assert!((57..=62).all(|len| short_words(len) > PAYLOAD_WORDS));
        assert_eq!([0, 56, 57, 120, 121].map(long_lines), [1, 1, 2, 2, 3]);
        assert_eq!(long_lines(u32::MAX as usize), (1 << 26) + 1);
    }
}
