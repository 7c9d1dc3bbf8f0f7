//! Sorted, disjoint intervals of sequence numbers: the algebra of one transaction source.

use crate::error::IntervalError;

/// The highest sequence number a server assigns: 2^63 - 2.
pub const MAXIMUM_SEQUENCE_NUMBER: u64 = 9_223_372_036_854_775_806;

/// Consecutive sequence numbers, both ends included. Each value satisfies `1 <= start <= end <= MAXIMUM_SEQUENCE_NUMBER`,
/// so `end + 1` and `start - 1` never wrap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Interval {
    start: u64,
    end: u64,
}

/// Intervals in ascending order with at least one missing number between neighbours, so that equal sets have
/// equal lists.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct IntervalList(Vec<Interval>);

impl Interval {
    pub(crate) fn new(start: u64, end: u64) -> Result<Self, IntervalError> {
        if start == 0 || end == 0 {
            return Err(IntervalError::Zero { start, end });
        }
        if start > end {
            return Err(IntervalError::Reversed { start, end });
        }
        if end > MAXIMUM_SEQUENCE_NUMBER {
            return Err(IntervalError::BeyondMaximum { number: end });
        }
        Ok(Self { start, end })
    }

    pub(crate) const fn start(self) -> u64 {
        self.start
    }

    pub(crate) const fn end(self) -> u64 {
        self.end
    }

    /// How many sequence numbers the interval holds.
    const fn count(self) -> u64 {
        self.end - self.start + 1
    }

    /// Whether `next`, which starts no earlier, overlaps or directly follows.
    const fn joins(self, next: Self) -> bool {
        next.start <= self.end + 1
    }
}

impl IntervalList {
    /// The list of intervals given in any order, overlapping or not.
    pub(crate) fn from_unordered(mut intervals: Vec<Interval>) -> Self {
        if !intervals.is_sorted() {
            intervals.sort_unstable();
        }
        // `dedup_by` hands over the later element first and keeps the earlier one, which grows here.
        intervals.dedup_by(|next, kept| {
            let joined = kept.joins(*next);
            if joined {
                kept.end = kept.end.max(next.end);
            }
            joined
        });
        Self(intervals)
    }

    pub(crate) fn as_slice(&self) -> &[Interval] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many sequence numbers the list holds.
    pub(crate) fn count(&self) -> u128 {
        self.0.iter().map(|interval| u128::from(interval.count())).sum()
    }

    pub(crate) fn holds(&self, number: u64) -> bool {
        let after = self.0.partition_point(|interval| interval.end < number);
        self.0.get(after).is_some_and(|interval| interval.start <= number)
    }

    pub(crate) fn insert(&mut self, interval: Interval) {
        let from = self.0.partition_point(|held| held.end < interval.start - 1);
        let until = self.0.partition_point(|held| held.start <= interval.end + 1);
        let joined = self.0.get(from..until).unwrap_or_default();
        let merged = Interval {
            start: joined
                .first()
                .map_or(interval.start, |first| first.start.min(interval.start)),
            end: joined.last().map_or(interval.end, |last| last.end.max(interval.end)),
        };
        self.0.splice(from..until, [merged]);
    }

    /// Whether every number of `other` is held. Linear in both lists.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        let mut held = self.0.iter().peekable();
        other.0.iter().all(|wanted| {
            while held.next_if(|interval| interval.end < wanted.start).is_some() {}
            held.peek()
                .is_some_and(|interval| interval.start <= wanted.start && wanted.end <= interval.end)
        })
    }

    /// The numbers of either list.
    pub(crate) fn union(&self, other: &Self) -> Self {
        // Two sorted runs: the stable sort of the standard library merges them in linear time.
        let mut intervals = [self.as_slice(), other.as_slice()].concat();
        intervals.sort();
        Self::from_unordered(intervals)
    }

    /// The numbers of both lists. Linear in both.
    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(&&one), Some(&&two)) = (left.peek(), right.peek()) {
            let (start, end) = (one.start.max(two.start), one.end.min(two.end));
            if start <= end {
                common.push(Interval { start, end });
            }
            if one.end <= two.end {
                left.next();
            } else {
                right.next();
            }
        }
        Self(common)
    }

    /// The numbers of this list that `other` lacks. Linear in both.
    pub(crate) fn subtract(&self, other: &Self) -> Self {
        let mut removed = other.0.iter().peekable();
        let mut rest = Vec::new();
        for interval in &self.0 {
            let mut start = interval.start;
            while removed.next_if(|gone| gone.end < start).is_some() {}
            while let Some(&&gone) = removed.peek() {
                if gone.start > interval.end {
                    break;
                }
                if gone.start > start {
                    rest.push(Interval {
                        start,
                        end: gone.start - 1,
                    });
                }
                start = gone.end + 1;
                // A removed interval that reaches further also cuts the next held one, so it stays.
                if gone.end >= interval.end {
                    break;
                }
                removed.next();
            }
            if start <= interval.end {
                rest.push(Interval {
                    start,
                    end: interval.end,
                });
            }
        }
        Self(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(u64, u64)]) -> IntervalList {
        let intervals = pairs.iter().map(|&(start, end)| Interval::new(start, end).unwrap());
        IntervalList::from_unordered(intervals.collect())
    }

    /// Overlapping, touching and unordered intervals become the one canonical list.
    #[test]
    fn intervals_merge() {
        let merged = list(&[(7, 9), (1, 3), (4, 5), (8, 12), (20, 20)]);
        assert_eq!(merged, list(&[(1, 5), (7, 12), (20, 20)]));
        assert_eq!(merged.count(), 12);
    }

    /// Inserting one by one, in any place, gives the list that merging all at once gives.
    #[test]
    fn insert_equals_merge() {
        let pairs = [(10, 12), (1, 1), (3, 4), (14, 20), (13, 13), (2, 2), (30, 40), (5, 35)];
        let mut grown = IntervalList::default();
        for (index, &(start, end)) in pairs.iter().enumerate() {
            grown.insert(Interval::new(start, end).unwrap());
            assert_eq!(grown, list(&pairs[..=index]));
        }
    }

    /// The highest sequence number takes part in every operation without wrapping.
    /// report: B08
    #[test]
    fn the_maximum_does_not_wrap() {
        let top = MAXIMUM_SEQUENCE_NUMBER;
        let all = list(&[(1, top)]);
        let last = list(&[(top, top)]);
        assert_eq!(all.count(), u128::from(top));
        assert_eq!(all.subtract(&last), list(&[(1, top - 1)]));
        assert_eq!(all.subtract(&last).union(&last), all);
        assert_eq!(last.subtract(&all), IntervalList::default());
        assert_eq!(all.intersect(&last), last);
        assert!(all.contains(&last) && !last.contains(&all) && last.holds(top));
        let mut grown = last;
        grown.insert(Interval::new(1, top - 1).unwrap());
        assert_eq!(grown, all);
    }

    /// Numbers that make no interval are refused with both numbers.
    /// report: B08
    #[test]
    fn impossible_intervals_are_refused() {
        let (start, end) = (5, 3);
        assert_eq!(Interval::new(5, 3), Err(IntervalError::Reversed { start, end }));
        let (start, end) = (0, 3);
        assert_eq!(Interval::new(0, 3), Err(IntervalError::Zero { start, end }));
        let (start, end) = (1, 0);
        assert_eq!(Interval::new(1, 0), Err(IntervalError::Zero { start, end }));
        let number = MAXIMUM_SEQUENCE_NUMBER + 1;
        assert_eq!(Interval::new(1, number), Err(IntervalError::BeyondMaximum { number }));
    }
}
