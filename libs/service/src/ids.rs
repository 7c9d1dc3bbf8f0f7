//! Fresh ids. Version 7 UUIDs, so that ids sort by the time they were made.

use uuid::Uuid;

/// Where ids come from. Cheap to copy; deterministic code takes ids as arguments instead.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdSource(());

impl IdSource {
    /// A fresh id. Ids of one process are strictly ascending.
    #[expect(clippy::disallowed_methods, reason = "the one source of ids")]
    pub fn fresh(&self) -> Uuid {
        Uuid::now_v7()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids made one after the other sort in that order, within a millisecond too.
    #[test]
    fn ids_ascend() {
        let source = IdSource::default();
        let ids: Vec<Uuid> = (0..1000).map(|_| source.fresh()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(ids.first().unwrap().get_version_num(), 7);
    }
}
