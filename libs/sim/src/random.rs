//! Randomness from a seed: the same seed gives the same world, on every machine.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A small generator (SplitMix64): its quality is far beyond what choosing faults needs.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; zero when there is none.
    pub const fn below(&mut self, end: u64) -> u64 {
        let next = self.next();
        if end == 0 { 0 } else { next % end }
    }

    /// Whether something of that likelihood happens, in thousandths.
    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A duration of the range, to the microsecond.
    pub fn duration(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let width = range.end().saturating_sub(*range.start()).as_micros();
        let width = u64::try_from(width).unwrap_or(u64::MAX - 1);
        *range.start() + Duration::from_micros(self.below(width + 1))
    }

    /// A generator of its own for a part of the world, so that one part's luck does not change another's.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self(self.next())
    }
}
