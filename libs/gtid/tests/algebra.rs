//! The set algebra against a naive model that lists each GTID.

#[cfg(test)]
mod model;

use std::collections::BTreeSet;

use bloodraven_gtid::{GtidSet, Tag};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use uuid::Uuid;

use crate::model::{Model, model_of, spelled};

/// The text the server would print for the model, on one line; written without the crate's own code.
fn canonical(model: &Model) -> String {
    let mut text = String::new();
    let mut last: Option<&(Uuid, Option<Tag>, u64)> = None;
    let mut run_start = 0;
    for gtid in model {
        let (uuid, tag, number) = gtid;
        let same_uuid = last.is_some_and(|last| last.0 == *uuid);
        let same_source = same_uuid && last.is_some_and(|last| last.1 == *tag);
        let follows = same_source && last.is_some_and(|last| last.2 + 1 == *number);
        if !same_uuid {
            let separator = if last.is_some() { "," } else { "" };
            text.push_str(&format!("{separator}{uuid}"));
        }
        if let (false, Some(tag)) = (same_source, tag) {
            text.push_str(&format!(":{tag}"));
        }
        if follows {
            // The run grows, so its end is written anew.
            text.truncate(text.rfind(':').unwrap_or_default());
            text.push_str(&format!(":{run_start}-{number}"));
        } else {
            run_start = *number;
            text.push_str(&format!(":{number}"));
        }
        last = Some(gtid);
    }
    text
}

/// How many tokens of a canonical text are intervals.
fn intervals_in(text: &str) -> usize {
    let tokens = text.split(',').flat_map(|member| member.split(':').skip(1));
    tokens
        .filter(|token| token.starts_with(|first: char| first.is_ascii_digit()))
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// Any spelling of a set is read as the GTIDs it names, counted right and printed canonically, and the print is
    /// read as the same set, by serde too.
    /// report: B01, B02, B05
    #[test]
    fn text_and_set_agree(spelled in spelled()) {
        let set = spelled.parsed();
        prop_assert_eq!(model_of(&set), spelled.model.clone());
        prop_assert_eq!(set.count(), spelled.model.len() as u128);
        prop_assert_eq!(set.is_empty(), spelled.model.is_empty());
        let text = set.to_string();
        prop_assert_eq!(&text, &canonical(&spelled.model));
        prop_assert_eq!(set.interval_count(), intervals_in(&text));
        prop_assert_eq!(&text.parse::<GtidSet>().unwrap(), &set);
        let json = serde_json::to_string(&set).unwrap();
        prop_assert_eq!(&json, &format!("\"{text}\""));
        prop_assert_eq!(serde_json::from_str::<GtidSet>(&json).unwrap(), set);
    }

    /// No text makes the parser panic, and one that it accepts has a stable canonical form.
    /// report: B04
    #[test]
    fn any_text_is_read_or_refused(text in "[ ,:0-9a-f-]{0,60}|\\PC{0,60}", tail in "[:, a-c0-9{}-]{0,12}") {
        for text in [format!("{text}{tail}"), format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{tail}")] {
            if let Ok(set) = text.parse::<GtidSet>() {
                prop_assert_eq!(set.to_string().parse(), Ok(set));
            }
        }
    }

    /// Union, subtraction, intersection and containment do to sets what they do to lists of GTIDs.
    /// report: B05
    #[test]
    fn operations_agree_with_the_model(left in spelled(), right in spelled()) {
        let (a, b) = (left.parsed(), right.parsed());
        let (a_model, b_model) = (left.model, right.model);
        for (set, model) in [
            (a.union(&b), &a_model | &b_model),
            (a.subtract(&b), &a_model - &b_model),
            (a.intersect(&b), &a_model & &b_model),
        ] {
            prop_assert_eq!(model_of(&set), model.clone());
            prop_assert_eq!(set.count(), model.len() as u128);
            // A result has the one canonical inside, so that equality and hashing may be derived.
            prop_assert_eq!(&canonical(&model).parse::<GtidSet>().unwrap(), &set);
        }
        prop_assert_eq!(a.contains(&b), a_model.is_superset(&b_model));
        prop_assert_eq!(a == b, a_model == b_model);
    }

    /// The laws that the promotion gate leans on.
    #[test]
    fn laws_hold(left in spelled(), right in spelled()) {
        let (a, b) = (left.parsed(), right.parsed());
        let rest = a.subtract(&b);
        let common = a.intersect(&b);
        prop_assert!(rest.intersect(&b).is_empty());
        prop_assert_eq!(&rest.union(&common), &a);
        prop_assert_eq!(rest.count() + common.count(), a.count());
        prop_assert_eq!(b.contains(&a), rest.is_empty());
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert!(a.union(&b).contains(&a) && a.contains(&common) && a.contains(&GtidSet::empty()));
        prop_assert_eq!(a.contains(&b) && b.contains(&a), a == b);
    }

    /// Splitting by source UUID loses and invents nothing.
    #[test]
    fn filters_split_by_uuid(spelled in spelled()) {
        let set = spelled.parsed();
        let uuids: Vec<_> = set.uuids().collect();
        let expected: BTreeSet<_> = spelled.model.iter().map(|gtid| gtid.0).collect();
        prop_assert_eq!(&uuids, &expected.into_iter().collect::<Vec<_>>());
        let mut joined = GtidSet::new();
        for uuid in uuids {
            let (own, others) = (set.only_from(uuid), set.without(uuid));
            prop_assert!(own.uuids().eq([uuid]) && !others.uuids().any(|other| other == uuid));
            prop_assert_eq!(own.union(&others), set.clone());
            joined = joined.union(&own);
        }
        prop_assert_eq!(joined, set.clone());
        prop_assert_eq!(set.counts().map(|(_, _, count)| count).sum::<u128>(), set.count());
    }

    /// Inserting GTIDs one by one builds the set that the text names.
    #[test]
    fn insertion_builds_the_same_set(spelled in spelled()) {
        let mut built = GtidSet::default();
        for (uuid, tag, number) in spelled.model.iter().rev() {
            built.insert_interval(*uuid, tag.as_ref(), *number, *number).unwrap();
        }
        prop_assert_eq!(built, spelled.parsed());
    }
}
