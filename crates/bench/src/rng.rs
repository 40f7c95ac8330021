//! The seeded random generator, so that a report can be recomputed exactly from its blocks.

pub use seeded_random::SplitMix64 as Rng;
