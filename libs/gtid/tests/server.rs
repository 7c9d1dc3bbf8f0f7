//! The set algebra against a real server's own `GTID_SUBSET` and `GTID_SUBTRACT`.

#[cfg(test)]
#[expect(dead_code, reason = "only the property tests read sets back into the model")]
mod model;

#[cfg(test)]
mod comparison {
    use bloodraven_gtid::{GtidSet, IntervalError, ParseGtidError, TagError};
    use bloodraven_lab::{Lab, LabOptions, SiteOptions, SiteRole};
    use mysql_async::prelude::Queryable;
    use mysql_async::{Conn, Row, Value};
    use proptest::prelude::*;
    use proptest::sample::Index;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use crate::model::{Spelled, spelled};

    const PAIRS: usize = 2_000;
    /// Pairs in one statement, so that a comparison costs far less than a round trip.
    const BATCH: usize = 100;
    const DAMAGED_TEXTS: usize = 2_000;
    /// `ER_MALFORMED_GTID_SET_SPECIFICATION`
    const MALFORMED_SET: u16 = 1772;

    /// For random pairs, every third one a set and a superset of it, the server sees the same containment and the same
    /// differences, and prints each set as this crate does except for its line breaks.
    /// report: B05, B04
    #[tokio::test]
    async fn random_pairs_agree_with_the_server() {
        let (_lab, mut connection) = server("gtid-pairs").await;
        let pairs = samples(pair(), PAIRS);
        let mut contained = 0;
        for batch in pairs.chunks(BATCH) {
            let rows: Vec<Row> = connection.query(comparison_of(batch)).await.unwrap();
            assert_eq!(rows.len(), batch.len());
            for row in rows {
                let (pair, subset, superset, less, more, left, right): Answer = mysql_async::from_row(row);
                let (a, b) = &batch[pair];
                let (a_set, b_set) = (a.parsed(), b.parsed());
                let context = format!("{:?} and {:?}", a.text, b.text);
                assert_eq!(b_set.contains(&a_set), subset, "{context}");
                assert_eq!(a_set.contains(&b_set), superset, "{context}");
                assert_eq!(a_set.subtract(&b_set).to_string(), one_line(&less), "{context}");
                assert_eq!(b_set.subtract(&a_set).to_string(), one_line(&more), "{context}");
                assert_eq!(a_set.to_string(), one_line(&left), "{context}");
                assert_eq!(b_set.to_string(), one_line(&right), "{context}");
                contained += usize::from(subset);
            }
        }
        assert!(
            contained > PAIRS / 4 && contained < PAIRS,
            "{contained} of {PAIRS} contained"
        );
        connection.disconnect().await.unwrap();
    }

    /// A text with one character lost, doubled or replaced is never read differently: what the server refuses is
    /// refused, and what it accepts is read the same or refused for one of the reasons the crate documents.
    /// report: B04, B08
    #[tokio::test]
    async fn damaged_texts_are_never_read_differently() {
        let (_lab, mut connection) = server("gtid-damaged").await;
        let (mut same, mut stricter, mut refused) = (0, 0, 0);
        for text in samples(damaged(), DAMAGED_TEXTS) {
            let query = format!("SELECT GTID_SUBTRACT({}, '')", quoted(&text));
            let answer = connection.query_first::<Vec<u8>, _>(query).await;
            match (answer, text.parse::<GtidSet>()) {
                (Ok(printed), Ok(set)) => {
                    let printed = String::from_utf8(printed.unwrap()).unwrap();
                    assert_eq!(one_line(&printed), set.to_string(), "{text:?}");
                    same += 1;
                }
                (Ok(_), Err(error)) => {
                    assert!(is_documented(&error), "{text:?}: {error}, but the server accepts it");
                    stricter += 1;
                }
                (Err(mysql_async::Error::Server(error)), own) if error.code == MALFORMED_SET => {
                    assert!(own.is_err(), "{text:?}: {error}");
                    refused += 1;
                }
                (Err(error), _) => panic!("{text:?}: {error}"),
            }
        }
        println!("{same} read the same, {stricter} refused here only, {refused} refused by both");
        assert!(same > 100 && stricter > 10 && refused > 100);
        connection.disconnect().await.unwrap();
    }

    /// Pair index, left subset of right, right subset of left, left - right, right - left, left, right.
    type Answer = (usize, bool, bool, String, String, String, String);

    /// One statement that has the server compare all pairs.
    fn comparison_of(pairs: &[(Spelled, Spelled)]) -> String {
        let rows: Vec<_> = pairs
            .iter()
            .enumerate()
            .map(|(index, (a, b))| format!("ROW({index}, {}, {})", quoted(&a.text), quoted(&b.text)))
            .collect();
        format!(
            "SELECT pair, GTID_SUBSET(a, b), GTID_SUBSET(b, a), GTID_SUBTRACT(a, b), GTID_SUBTRACT(b, a), \
             GTID_SUBTRACT(a, ''), GTID_SUBTRACT(b, '') FROM (VALUES {}) AS pairs (pair, a, b)",
            rows.join(", ")
        )
    }

    /// Two sets; in every third pair the second holds the first.
    fn pair() -> impl Strategy<Value = (Spelled, Spelled)> {
        (spelled(), spelled(), 0..3_u8).prop_map(|(a, b, kind)| {
            if kind > 0 || a.model.is_empty() {
                return (a, b);
            }
            let text = format!("{},{}", a.text.trim_end_matches([',', ' ', '\t', '\r', '\n']), b.text);
            let model = &a.model | &b.model;
            (a, Spelled { model, text })
        })
    }

    /// The text of a set after one accident.
    fn damaged() -> impl Strategy<Value = String> {
        let character = proptest::sample::select("0159afgz_AF:-,{}+;. \n\u{b}é".chars().collect::<Vec<_>>());
        (spelled(), any::<Index>(), 0..3_u8, character).prop_map(|(spelled, at, kind, new)| {
            let mut characters: Vec<_> = spelled.text.chars().collect();
            if characters.is_empty() {
                return new.to_string();
            }
            let at = at.index(characters.len());
            match kind {
                0 => drop(characters.remove(at)),
                1 => characters.insert(at, characters[at]),
                _ => characters[at] = new,
            }
            characters.into_iter().collect()
        })
    }

    /// The same values in each run of the test.
    fn samples<T: Strategy>(strategy: T, count: usize) -> Vec<T::Value> {
        let mut runner = TestRunner::deterministic();
        (0..count)
            .map(|_| strategy.new_tree(&mut runner).unwrap().current())
            .collect()
    }

    /// Whether the crate documents that it is stricter than the server here.
    fn is_documented(error: &ParseGtidError) -> bool {
        match error {
            ParseGtidError::EmptyMember { .. } | ParseGtidError::MissingInterval { .. } => true,
            // The server takes an interval that ends at 0, such as `1-0`, for one that runs backwards.
            ParseGtidError::Interval { source, .. } => match source {
                IntervalError::Reversed { .. } => true,
                IntervalError::Zero { start, .. } => *start > 0,
                IntervalError::BeyondMaximum { .. } => false,
            },
            // The server lets other characters than ASCII into a tag, where they become bytes that are no text.
            ParseGtidError::Tag { source, .. } => match source {
                TagError::Character { character, .. } => !character.is_ascii(),
                TagError::Empty | TagError::TooLong { .. } => false,
            },
            ParseGtidError::Uuid { .. } | ParseGtidError::Number { .. } | ParseGtidError::Overflow { .. } => false,
        }
    }

    fn quoted(text: &str) -> String {
        Value::from(text).as_sql(false)
    }

    fn one_line(text: &str) -> String {
        text.replace('\n', "")
    }

    /// A session on a server of its own, which ends when the lab is dropped.
    async fn server(name: &str) -> (Lab, Conn) {
        let sites = vec![SiteOptions::new("iad", SiteRole::PrimaryCandidate)];
        let lab = Lab::up(LabOptions {
            sites,
            ..LabOptions::for_test(name).with_mysql()
        })
        .await
        .unwrap();
        let connection = lab.mysql("iad").await.unwrap();
        (lab, connection)
    }
}
