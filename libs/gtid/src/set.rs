//! The set itself: transaction sources mapped to the sequence numbers they committed, and the algebra over it.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::error::IntervalError;
use crate::interval::{Interval, IntervalList};
use crate::tag::Tag;

/// A set of GTIDs, as in `@@gtid_executed`.
///
/// Two sets are equal exactly when they hold the same GTIDs. The text form is parsed by `FromStr` and printed by
/// `Display` (also used by serde); the crate documentation has the grammar.
///
/// ```
/// use bloodraven_gtid::GtidSet;
///
/// let fenced: GtidSet = "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5:8,\n".parse()?;
/// let target: GtidSet = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7".parse()?;
/// assert!(!target.contains(&fenced));
/// assert_eq!(fenced.subtract(&target).to_string(), "3e11fa47-71ca-11e1-9e33-c80aa9429562:8");
/// assert_eq!(target.subtract(&fenced).count(), 2);
/// # Ok::<(), bloodraven_gtid::ParseGtidError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct GtidSet {
    /// Never holds an empty list, so that derived equality is equality of sets.
    sources: BTreeMap<Tsid, IntervalList>,
}

/// The transaction source identifier of the server: UUID and tag. The order is the server's printing order:
/// by UUID, untagged first, then by tag.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Tsid {
    pub(crate) uuid: Uuid,
    pub(crate) tag: Option<Tag>,
}

impl GtidSet {
    /// The set without any GTID: what a server that never wrote its binary log reports.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sources: BTreeMap::new(),
        }
    }

    /// The same as [`GtidSet::new`], where that reads better.
    #[must_use]
    pub const fn empty() -> Self {
        Self::new()
    }

    /// Whether the set holds no GTID.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether every GTID of `other` is in this set: superset or equal, like `GTID_SUBSET(other, self)`.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other
            .sources
            .iter()
            .all(|(tsid, wanted)| self.sources.get(tsid).is_some_and(|held| held.contains(wanted)))
    }

    /// Whether the one GTID is in this set.
    #[must_use]
    pub fn contains_gtid(&self, uuid: Uuid, tag: Option<&Tag>, sequence_number: u64) -> bool {
        let tsid = Tsid {
            uuid,
            tag: tag.cloned(),
        };
        self.sources.get(&tsid).is_some_and(|held| held.holds(sequence_number))
    }

    /// The GTIDs that are in this set, in `other` or in both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut sources = self.sources.clone();
        for (tsid, added) in &other.sources {
            let held = sources.entry(tsid.clone()).or_default();
            *held = held.union(added);
        }
        Self { sources }
    }

    /// The GTIDs of this set that `other` lacks, like `GTID_SUBTRACT(self, other)`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        Self::from_lists(self.sources.iter().map(|(tsid, held)| {
            let rest = match other.sources.get(tsid) {
                Some(removed) => held.subtract(removed),
                None => held.clone(),
            };
            (tsid.clone(), rest)
        }))
    }

    /// The GTIDs that are in both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self::from_lists(self.sources.iter().filter_map(|(tsid, held)| {
            let common = held.intersect(other.sources.get(tsid)?);
            Some((tsid.clone(), common))
        }))
    }

    /// How many transactions the set holds.
    #[must_use]
    pub fn count(&self) -> u128 {
        self.sources.values().map(IntervalList::count).sum()
    }

    /// How many intervals the canonical text has: the measure of its length and of the work on it.
    #[must_use]
    pub fn interval_count(&self) -> usize {
        self.sources.values().map(|list| list.as_slice().len()).sum()
    }

    /// The UUIDs that have at least one GTID in the set, tagged or not, each once and in ascending order.
    pub fn uuids(&self) -> impl Iterator<Item = Uuid> + '_ {
        let mut last = None;
        let uuids = self.sources.keys().map(|tsid| tsid.uuid);
        uuids.filter(move |&uuid| last.replace(uuid) != Some(uuid))
    }

    /// How many transactions each source has, in printing order; `None` stands for untagged GTIDs.
    pub fn counts(&self) -> impl Iterator<Item = (Uuid, Option<&Tag>, u128)> + '_ {
        self.sources
            .iter()
            .map(|(tsid, list)| (tsid.uuid, tsid.tag.as_ref(), list.count()))
    }

    /// The GTIDs that the server `uuid` originated, whatever their tags.
    #[must_use]
    pub fn only_from(&self, uuid: Uuid) -> Self {
        self.filtered(|source| source == uuid)
    }

    /// The GTIDs that other servers than `uuid` originated, whatever their tags.
    #[must_use]
    pub fn without(&self, uuid: Uuid) -> Self {
        self.filtered(|source| source != uuid)
    }

    /// Adds the sequence numbers `start` to `end`, both included, of one source.
    ///
    /// # Errors
    ///
    /// The numbers are no interval between 1 and [`crate::MAXIMUM_SEQUENCE_NUMBER`]; the set is unchanged.
    pub fn insert_interval(
        &mut self,
        uuid: Uuid,
        tag: Option<&Tag>,
        start: u64,
        end: u64,
    ) -> Result<(), IntervalError> {
        let interval = Interval::new(start, end)?;
        let tsid = Tsid {
            uuid,
            tag: tag.cloned(),
        };
        self.sources.entry(tsid).or_default().insert(interval);
        Ok(())
    }

    /// The set of these lists; empty ones are left out. A source may come once.
    pub(crate) fn from_lists(lists: impl Iterator<Item = (Tsid, IntervalList)>) -> Self {
        Self {
            sources: lists.filter(|(_, list)| !list.is_empty()).collect(),
        }
    }

    /// The sources and their numbers in printing order.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (&Tsid, &IntervalList)> {
        self.sources.iter()
    }

    fn filtered(&self, keep: impl Fn(Uuid) -> bool) -> Self {
        let kept = self.sources.iter().filter(|(tsid, _)| keep(tsid.uuid));
        Self {
            sources: kept.map(|(tsid, list)| (tsid.clone(), list.clone())).collect(),
        }
    }
}
