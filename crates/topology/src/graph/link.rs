//! The width and speed of a link.

use super::NO_LINK;

/// How many lanes a link has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Width {
    /// Nothing said so.
    #[default]
    Unknown,
    /// One lane.
    X1,
    /// Two lanes.
    X2,
    /// Three lanes: an Omni-Path link that lost one.
    X3,
    /// Four lanes.
    X4,
    /// Eight lanes.
    X8,
    /// Twelve lanes.
    X12,
}

impl Width {
    /// All that are known.
    pub const ALL: [Self; 6] = [Self::X1, Self::X2, Self::X3, Self::X4, Self::X8, Self::X12];

    /// Lanes; 0 if it is not known.
    #[must_use]
    pub fn lanes(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X3 => 3,
            Self::X4 => 4,
            Self::X8 => 8,
            Self::X12 => 12,
        }
    }

    /// The width of so many lanes.
    #[must_use]
    pub fn of_lanes(lanes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|width| u32::from(width.lanes()) == lanes)
    }
}

/// How fast a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Speed {
    /// Nothing said so.
    #[default]
    Unknown,
    /// 2.5 Gb/s.
    Sdr,
    /// 5 Gb/s.
    Ddr,
    /// 10 Gb/s.
    Qdr,
    /// 10.3125 Gb/s with the coding of FDR.
    Fdr10,
    /// 12.5 Gb/s: Omni-Path at half its rate.
    Opa12,
    /// 14.0625 Gb/s.
    Fdr,
    /// 25.78125 Gb/s: Omni-Path.
    Opa25,
    /// 25.78125 Gb/s.
    Edr,
    /// 53.125 Gb/s.
    Hdr,
    /// 106.25 Gb/s.
    Ndr,
    /// 212.5 Gb/s.
    Xdr,
}

impl Speed {
    /// All that are known, slow ones first.
    pub const ALL: [Self; 11] = [
        Self::Sdr,
        Self::Ddr,
        Self::Qdr,
        Self::Fdr10,
        Self::Opa12,
        Self::Fdr,
        Self::Opa25,
        Self::Edr,
        Self::Hdr,
        Self::Ndr,
        Self::Xdr,
    ];

    /// As dumps write it: `HDR`. Empty if it is not known.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Sdr => "SDR",
            Self::Ddr => "DDR",
            Self::Qdr => "QDR",
            Self::Fdr10 => "FDR10",
            Self::Opa12 => "12.5Gb",
            Self::Fdr => "FDR",
            Self::Opa25 => "25Gb",
            Self::Edr => "EDR",
            Self::Hdr => "HDR",
            Self::Ndr => "NDR",
            Self::Xdr => "XDR",
        }
    }

    /// The speed of this word, in any case of letters.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|speed| speed.word().eq_ignore_ascii_case(word))
    }

    /// What a lane carries of data after the line's coding, in Mb/s; 0 if it is not known.
    #[must_use]
    pub fn lane_mbps(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::Sdr => 2_000,
            Self::Ddr => 4_000,
            Self::Qdr => 8_000,
            Self::Fdr10 => 10_000,
            Self::Opa12 => 12_500,
            Self::Fdr => 13_636,
            Self::Opa25 | Self::Edr => 25_000,
            Self::Hdr => 50_000,
            Self::Ndr => 100_000,
            Self::Xdr => 200_000,
        }
    }
}

/// Width and speed of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LinkSpec {
    /// How many lanes.
    pub width: Width,
    /// How fast a lane is.
    pub speed: Speed,
}

impl LinkSpec {
    /// Four lanes of EDR: 100 Gb/s; the default of builders.
    pub const EDR4X: Self = Self { width: Width::X4, speed: Speed::Edr };

    /// What the link carries of data in one direction, in Mb/s; 0 if its width or speed is not known.
    #[must_use]
    pub fn mbps(self) -> u32 {
        u32::from(self.width.lanes()) * self.speed.lane_mbps()
    }

    /// Whether both are known, and links of this width are made at this speed: InfiniBand's have 1, 2, 4, 8
    /// or 12 lanes; Omni-Path's have four, and go on with fewer when lanes fail.
    #[must_use]
    pub fn is_made(self) -> bool {
        match self.speed {
            Speed::Unknown => false,
            Speed::Opa12 | Speed::Opa25 => (1..=4).contains(&self.width.lanes()),
            _ => matches!(self.width.lanes(), 1 | 2 | 4 | 8 | 12),
        }
    }

    /// One byte of both.
    pub(super) fn pack(self) -> u8 {
        (self.width as u8) << 4 | self.speed as u8
    }

    /// Both from a byte; `None` if it means that there is no link.
    pub(super) fn unpack(byte: u8) -> Option<Self> {
        if byte == NO_LINK {
            return None;
        }
        let width = Width::ALL.into_iter().find(|width| *width as u8 == byte >> 4).unwrap_or_default();
        let speed = Speed::ALL.into_iter().find(|speed| *speed as u8 == byte & 15).unwrap_or_default();
        Some(Self { width, speed })
    }
}

impl std::fmt::Display for LinkSpec {
    /// As dumps write it: `4xHDR`; what is not known is `?`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.width.lanes() {
            0 => write!(out, "?x")?,
            lanes => write!(out, "{lanes}x")?,
        }
        out.write_str(if self.speed == Speed::Unknown { "?" } else { self.speed.word() })
    }
}

impl std::str::FromStr for LinkSpec {
    type Err = ();

    /// `4xHDR` and the like, `?` for what is not known.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (lanes, word) = text.split_once(['x', 'X']).ok_or(())?;
        let width = match lanes {
            "?" => Width::Unknown,
            lanes => lanes.parse().ok().and_then(Width::of_lanes).ok_or(())?,
        };
        let speed = if word == "?" { Speed::Unknown } else { Speed::of_word(word).ok_or(())? };
        Ok(Self { width, speed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_lanes_are_made_of_omni_path_alone() {
        let made = |text: &str| text.parse::<LinkSpec>().map(LinkSpec::is_made);
        for text in ["1xSDR", "2xHDR", "4xNDR", "8xHDR", "12xQDR", "3x25Gb", "4x12.5Gb"] {
            assert_eq!(made(text), Ok(true), "{text}");
        }
        for text in ["3xHDR", "3xSDR", "8x25Gb", "12x12.5Gb", "?xHDR", "4x?"] {
            assert_eq!(made(text), Ok(false), "{text}");
        }
        for text in ["5xHDR", "0xHDR", "4xZDR", "4HDR", "-4xHDR", ""] {
            assert_eq!(made(text), Err(()), "{text}");
        }
    }
}
