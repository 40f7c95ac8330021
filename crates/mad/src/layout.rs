//! Describes a structure of a datagram: its length, and each field's first bit and width.
//!
//! The macro `layout!` makes of such a list a type over exactly that many bytes, with a getter and a setter a
//! field. It is a view: a `&NodeInfo` is made of bytes that lie anywhere, after its length was checked and
//! without a copy. The list itself stays readable as [`Layout::FIELDS`], by which tests hold it against other
//! people's tables.

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One field, or a row of equal ones side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name of its getter.
    pub name: &'static str,
    /// First bit, from the start of the structure.
    pub bit: usize,
    /// Bits of one element.
    pub width: usize,
    /// Elements: 1, or the length of a row.
    pub count: usize,
}

/// A structure of fixed length, all of whose byte patterns are valid.
pub trait Layout: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Copy {
    /// The name of the type, for errors.
    const NAME: &'static str;
    /// The size in bytes.
    const LEN: usize;
    /// Its fields in order; reserved bits belong to none.
    const FIELDS: &'static [Field];

    /// All bits zero.
    #[must_use]
    fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// The structure that `bytes` begin with, where they lie.
    ///
    /// # Errors
    /// [`TooShort`], with what was needed and what there was.
    fn view(bytes: &[u8]) -> Result<&Self, TooShort> {
        let there = bytes.len();
        match Self::ref_from_prefix(bytes) {
            Ok((view, _)) => Ok(view),
            Err(_) => Err(TooShort { what: Self::NAME, needed: Self::LEN, there }),
        }
    }

    /// The same, to be changed in place.
    ///
    /// # Errors
    /// [`TooShort`], with what was needed and what there was.
    fn view_mut(bytes: &mut [u8]) -> Result<&mut Self, TooShort> {
        let there = bytes.len();
        match Self::mut_from_prefix(bytes) {
            Ok((view, _)) => Ok(view),
            Err(_) => Err(TooShort { what: Self::NAME, needed: Self::LEN, there }),
        }
    }
}

/// Do so many bits from that one lie within so many bytes?
pub(crate) const fn fits(bit: usize, bits: usize, bytes: usize) -> bool {
    bit + bits <= bytes * 8
}

/// Bytes that cannot hold what they should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} takes {needed} bytes, but only {there} are there")]
pub struct TooShort {
    /// The structure.
    pub what: &'static str,
    /// Its length in bytes.
    pub needed: usize,
    /// Bytes that there were.
    pub there: usize,
}

/// Prints each field's name and value: what `Debug` of every structure does.
///
/// # Errors
/// Those of the formatter.
pub fn debug<T: Layout>(structure: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let bytes = structure.as_bytes();
    let mut out = f.debug_struct(T::NAME);
    for field in T::FIELDS {
        let element = |index: usize| {
            let at = field.bit + index * field.width;
            if field.width <= 64 {
                format!("{:#x}", crate::bits::get(bytes, at, field.width))
            } else {
                let some = bytes.get(at / 8..(at + field.width) / 8).unwrap_or_default();
                some.iter().map(|byte| format!("{byte:02x}")).collect()
            }
        };
        if field.count == 1 {
            out.field(field.name, &format_args!("{}", element(0)));
        } else {
            let all: Vec<String> = (0..field.count).map(element).collect();
            out.field(field.name, &format_args!("[{}]", all.join(" ")));
        }
    }
    out.finish()
}

/// `struct Name: LEN { getter, setter: Type @ bit : width; … }`, then rows
/// `[getter, setter: Type @ bit : width * count]`, byte strings `(getter, setter: @ byte, len)` and
/// structures within `<getter, getter_mut: Type @ byte>`.
macro_rules! layout {
    ($(
        $(#[$doc:meta])*
        struct $name:ident : $len:literal {
            $( $(#[$fdoc:meta])* $get:ident, $set:ident : $t:ty = $bit:literal + $width:literal ; )*
            $( @row $(#[$rdoc:meta])* $rget:ident, $rset:ident : $rt:ty = $rbit:literal + $rwidth:literal * $rcount:literal ; )*
            $( @bytes $(#[$bdoc:meta])* $bget:ident, $bset:ident = $bat:literal + $blen:literal ; )*
            $( @inner $(#[$idoc:meta])* $iget:ident, $imut:ident : $it:ty = $iat:literal ; )*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, Hash,
            ::zerocopy::FromBytes, ::zerocopy::IntoBytes, ::zerocopy::KnownLayout, ::zerocopy::Immutable, ::zerocopy::Unaligned,
        )]
        #[repr(transparent)]
        pub struct $name([u8; $len]);

        impl $crate::layout::Layout for $name {
            const NAME: &'static str = stringify!($name);
            const LEN: usize = $len;
            const FIELDS: &'static [$crate::layout::Field] = &[
                $( $crate::layout::Field { name: stringify!($get), bit: $bit, width: $width, count: 1 }, )*
                $( $crate::layout::Field { name: stringify!($rget), bit: $rbit, width: $rwidth, count: $rcount }, )*
                $( $crate::layout::Field { name: stringify!($bget), bit: $bat * 8, width: 8, count: $blen }, )*
                $( $crate::layout::Field {
                    name: stringify!($iget), bit: $iat * 8, width: <$it as $crate::layout::Layout>::LEN * 8, count: 1,
                }, )*
            ];
        }

        impl $name {
            $(
                $(#[$fdoc])*
                #[doc = concat!("\n\n", stringify!($width), " bits from bit ", stringify!($bit), ".")]
                #[inline]
                #[must_use]
                pub fn $get(&self) -> $t {
                    const { assert!($crate::layout::fits($bit, $width, $len)) };
                    <$t as $crate::bits::Bits>::from_bits($crate::bits::get(&self.0, $bit, $width))
                }
                #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), ").")]
                #[inline]
                pub fn $set(&mut self, value: $t) -> &mut Self {
                    $crate::bits::set(&mut self.0, $bit, $width, $crate::bits::Bits::to_bits(value));
                    self
                }
            )*
            $(
                $(#[$rdoc])*
                #[doc = concat!("\n\nOne of ", stringify!($rcount), ", of ", stringify!($rwidth), " bits each, from bit ", stringify!($rbit), "; `None` beyond.")]
                #[inline]
                #[must_use]
                pub fn $rget(&self, index: usize) -> Option<$rt> {
                    const { assert!($crate::layout::fits($rbit, $rwidth * $rcount, $len)) };
                    (index < $rcount).then(|| {
                        let at = $rbit + index * $rwidth;
                        <$rt as $crate::bits::Bits>::from_bits($crate::bits::get(&self.0, at, $rwidth))
                    })
                }
                #[doc = concat!("Sets an element of [`", stringify!($rget), "`](Self::", stringify!($rget), "); `None`, and nothing done, beyond the last.")]
                #[inline]
                pub fn $rset(&mut self, index: usize, value: $rt) -> Option<()> {
                    (index < $rcount).then(|| {
                        let at = $rbit + index * $rwidth;
                        $crate::bits::set(&mut self.0, at, $rwidth, $crate::bits::Bits::to_bits(value));
                    })
                }
            )*
            $(
                $(#[$bdoc])*
                #[doc = concat!("\n\n", stringify!($blen), " bytes from byte ", stringify!($bat), ".")]
                #[inline]
                #[must_use]
                pub fn $bget(&self) -> &[u8; $blen] {
                    const { assert!($bat + $blen <= $len) };
                    match self.0[$bat..].first_chunk() {
                        Some(bytes) => bytes,
                        None => unreachable!(),
                    }
                }
                #[doc = concat!("Sets [`", stringify!($bget), "`](Self::", stringify!($bget), ").")]
                #[inline]
                pub fn $bset(&mut self, value: &[u8; $blen]) -> &mut Self {
                    self.0[$bat..$bat + $blen].copy_from_slice(value);
                    self
                }
            )*
            $(
                $(#[$idoc])*
                #[doc = concat!("\n\nLies at byte ", stringify!($iat), ".")]
                #[inline]
                #[must_use]
                pub fn $iget(&self) -> &$it {
                    const { assert!($iat + <$it as $crate::layout::Layout>::LEN <= $len) };
                    match <$it as $crate::layout::Layout>::view(&self.0[$iat..]) {
                        Ok(view) => view,
                        Err(_) => unreachable!(),
                    }
                }
                #[doc = concat!("[`", stringify!($iget), "`](Self::", stringify!($iget), "), to be changed.")]
                #[inline]
                #[must_use]
                pub fn $imut(&mut self) -> &mut $it {
                    match <$it as $crate::layout::Layout>::view_mut(&mut self.0[$iat..]) {
                        Ok(view) => view,
                        Err(_) => unreachable!(),
                    }
                }
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self([0; $len])
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::layout::debug(self, f)
            }
        }
    )*};
}
