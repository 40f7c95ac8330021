//! Whether a picture shows something.

use std::collections::HashSet;
use std::path::Path;

/// A decoded picture.
pub(crate) struct Picture {
    pub width: usize,
    pub height: usize,
    /// Three or four bytes each, by rows.
    bytes: Vec<u8>,
    each: usize,
}

/// Bands that a page is cut into, from top to bottom.
const BANDS: usize = 12;
/// A band with fewer colours than this shows nothing but perhaps a line or an area. Smoothed letters alone
/// have more.
const COLOURS: usize = 20;

impl Picture {
    pub(crate) fn read(path: &Path) -> Self {
        let file = std::io::BufReader::new(
            std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        );
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let each = info.color_type.samples();
        assert!(each >= 3 && info.bit_depth == png::BitDepth::Eight, "{info:?}");
        Self { width: info.width as usize, height: info.height as usize, bytes, each }
    }

    fn colour(&self, x: usize, y: usize) -> [u8; 3] {
        let at = (y * self.width + x) * self.each;
        [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2]]
    }

    fn colours(&self, rows: std::ops::Range<usize>) -> usize {
        rows.flat_map(|y| (0..self.width).map(move |x| (x, y)))
            .map(|(x, y)| self.colour(x, y))
            .collect::<HashSet<_>>()
            .len()
    }

    /// How bright the corner is, 0 to 255: the colour of the page itself.
    pub(crate) fn background(&self) -> u32 {
        self.colour(2, 2).iter().map(|part| u32::from(*part)).sum::<u32>() / 3
    }

    /// Why this is the picture of a page on which there is little; `Ok`: there is much, and not only at the
    /// top.
    pub(crate) fn shows_much(&self) -> Result<(), String> {
        let height = self.height / BANDS;
        let bands: Vec<usize> =
            (0..BANDS).map(|band| self.colours(band * height..(band + 1) * height)).collect();
        let lively = bands.iter().filter(|colours| **colours >= COLOURS).count();
        if lively * 4 >= BANDS * 3 { Ok(()) } else { Err(format!("colours from top to bottom: {bands:?}")) }
    }
}
