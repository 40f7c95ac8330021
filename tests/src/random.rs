//! Repeatable choices for tests that kill at random points: the seed is printed, and can be given.

/// xorshift64 (Marsaglia, Journal of Statistical Software 8:14, 2003).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From `TIELINE_TEST_SEED`, else from the clock. Prints the seed, for the next run.
    #[allow(clippy::print_stdout)]
    pub fn new(test: &str) -> Self {
        let given = std::env::var("TIELINE_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed: u64 = given.unwrap_or_else(|| clock.map(|since| since.subsec_nanos().into()).unwrap_or(1));
        println!("{test}: TIELINE_TEST_SEED={seed}");
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.draw() >> 16).unwrap_or(0) % end.max(1)
    }
}
