//! Texts that broke other tools, each with the one result it has here.

use bloodraven_gtid::{GtidSet, IntervalError, MAXIMUM_SEQUENCE_NUMBER, ParseGtidError, TagError, parse_uuid};
use uuid::{Uuid, uuid};

const A: Uuid = uuid!("3e11fa47-71ca-11e1-9e33-c80aa9429562");
const B: Uuid = uuid!("7c9d2f10-0b1e-11f0-8b2d-0242ac120002");

#[cfg(test)]
mod texts {
    use super::*;

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> ParseGtidError {
        text.parse::<GtidSet>().unwrap_err()
    }

    /// A UUID that comes twice keeps all of its intervals, so a target without the first ones is not complete.
    /// report: B01
    #[test]
    fn a_repeated_uuid_is_merged() {
        let fenced = set(&format!("{A}:100-200,{A}:300-400"));
        assert!(fenced.contains_gtid(A, None, 150));
        assert_eq!(fenced, set(&format!("{A}:100-200:300-400")));
        assert_eq!(set(&fenced.to_string()), fenced);
        let target = set(&format!("{A}:300-400"));
        assert!(!target.contains(&fenced));
        assert_eq!(fenced.subtract(&target).count(), 101);
    }

    /// Line breaks, tabs, blanks and a last comma mean nothing.
    /// report: B02
    #[test]
    fn blanks_mean_nothing() {
        let plain = set(&format!("{A}:1-5,{B}:1-9"));
        for text in [
            format!("{A}:1-5,\n{B}:1-9"),
            format!("{A}:1-5, {B}:1-9"),
            format!("\t{A}:1-5\t,\r\n{B}:1-9,\n"),
            format!("  {A} : 1 - 5 ,{B}\n:\n1-9\n"),
            format!("{B}:1-9,{A}:1-5,"),
        ] {
            assert_eq!(set(&text), plain, "{text:?}");
        }
        assert_eq!(plain.to_string(), format!("{A}:1-5,{B}:1-9"));
    }

    /// A tag holds for the intervals after it; tagged and untagged GTIDs of one UUID are different ones.
    /// report: B04
    #[test]
    fn tags_are_understood() {
        let tagged = set(&format!("{A}:1-5:mysqlsh:1-3:8:App_2:4,{B}:MYSQLSH:1"));
        assert_eq!(
            tagged.to_string(),
            format!("{A}:1-5:app_2:4:mysqlsh:1-3:8,{B}:mysqlsh:1")
        );
        assert_eq!(tagged.count(), 11);
        let tag = "mysqlsh".parse().unwrap();
        assert!(tagged.contains_gtid(A, Some(&tag), 8) && !tagged.contains_gtid(A, None, 8));
        let untagged = set(&format!("{A}:1-8"));
        assert!(!untagged.contains(&tagged));
        assert_eq!(untagged.intersect(&tagged), set(&format!("{A}:1-5")));
        let counts: Vec<_> = tagged
            .counts()
            .map(|(uuid, tag, n)| (uuid, tag.map(ToString::to_string), n))
            .collect();
        let named = |name: &str| Some(name.to_owned());
        let first = [(A, None, 5), (A, named("app_2"), 1), (A, named("mysqlsh"), 4)];
        assert_eq!(counts, [&first[..], &[(B, named("mysqlsh"), 1)]].concat());
        assert_eq!(set(&format!("{A}:t:1,{A}:t:2")), set(&format!("{A}:t:1:t:2")));
    }

    /// Single numbers, many intervals and many sources are all sets.
    /// report: B05
    #[test]
    fn single_numbers_and_many_intervals() {
        assert_eq!(set(&format!("{A}:42")).count(), 1);
        let gappy = set(&format!("{A}:1-100:200-300,{B}:7:9:8"));
        assert_eq!((gappy.count(), gappy.interval_count()), (204, 3));
        assert_eq!(gappy.to_string(), format!("{A}:1-100:200-300,{B}:7-9"));
    }

    /// An empty set is a set: it is in every set, and holds none but itself.
    /// report: B06
    #[test]
    fn the_empty_set_is_a_set() {
        for text in ["", " ", "\n", "\t \n"] {
            assert_eq!(set(text), GtidSet::empty());
        }
        let empty = GtidSet::new();
        let written = set(&format!("{A}:1"));
        assert!(empty.is_empty() && empty.to_string().is_empty() && empty.count() == 0);
        assert!(empty.contains(&empty) && written.contains(&empty) && !empty.contains(&written));
        assert_eq!(written.subtract(&written), empty);
        assert_eq!(serde_json::to_string(&empty).unwrap(), "\"\"");
    }

    /// One server is one identity, however its UUID is spelled, in sets and on its own.
    /// report: B08
    #[test]
    fn uuid_forms_are_one_identity() {
        let upper = A.to_string().to_uppercase();
        for form in [A.to_string(), upper, A.simple().to_string(), A.braced().to_string()] {
            assert_eq!(parse_uuid(&format!(" {form}\n")), Ok(A), "{form}");
            assert_eq!(set(&format!("{form}:1")).to_string(), format!("{A}:1"), "{form}");
        }
        for text in [
            "",
            "3e11fa47",
            &A.urn().to_string(),
            &format!("{{{A}"),
            &format!("{A}0"),
        ] {
            let refused = ParseGtidError::Uuid {
                position: 0,
                text: text.to_owned(),
            };
            assert_eq!(parse_uuid(text), Err(refused));
        }
    }

    /// Numbers at and past the edges have a defined result and never wrap around.
    /// report: B08
    #[test]
    fn numbers_at_the_edges() {
        let all = set(&format!("{A}:1-{MAXIMUM_SEQUENCE_NUMBER}"));
        assert_eq!(all.count(), u128::from(MAXIMUM_SEQUENCE_NUMBER));
        let position = 37;
        for (interval, source) in [
            ("5-3", IntervalError::Reversed { start: 5, end: 3 }),
            ("0-3", IntervalError::Zero { start: 0, end: 3 }),
            ("0", IntervalError::Zero { start: 0, end: 0 }),
            ("1-0", IntervalError::Zero { start: 1, end: 0 }),
            (
                "1-9223372036854775807",
                IntervalError::BeyondMaximum {
                    number: MAXIMUM_SEQUENCE_NUMBER + 1,
                },
            ),
        ] {
            let refused = ParseGtidError::Interval { position, source };
            assert_eq!(refusal(&format!("{A}:{interval}")), refused);
        }
        let text = "18446744073709551616".to_owned();
        assert_eq!(
            refusal(&format!("{A}:1-{text}")),
            ParseGtidError::Overflow { position: 39, text }
        );
        assert_eq!(set(&format!("{A}:0001-007")), set(&format!("{A}:1-7")));
    }

    /// Damaged texts are refused, and the error says where and what.
    #[test]
    fn damaged_texts_are_refused() {
        for interval in ["1-", "-1", "-", "1-2-3", "9a", "1 2", "+5", "1;2", "１"] {
            let found = refusal(&format!("{A}:{interval}"));
            let shown = matches!(&found,
                ParseGtidError::Number { position: 37, text } | ParseGtidError::Tag { position: 37, text, .. }
                if text == interval);
            assert!(shown, "{interval}: {found:?}");
        }
        for (text, position) in [
            (format!("{A}"), 36),
            (format!("{A}:"), 37),
            (format!("{A}:1:"), 39),
            (format!("{A}::1"), 37),
        ] {
            assert_eq!(
                refusal(&text),
                ParseGtidError::MissingInterval { position, uuid: A },
                "{text}"
            );
        }
        for (text, position) in [
            (format!("{A}:t"), 38),
            (format!("{A}:1:t"), 40),
            (format!("{A}:t:"), 39),
            (format!("{A}:t:u:1"), 39),
        ] {
            assert_eq!(
                refusal(&text),
                ParseGtidError::MissingInterval { position, uuid: A },
                "{text}"
            );
        }
        for (text, position) in [
            (",".to_owned(), 0),
            (format!(" ,{A}:1"), 1),
            (format!("{A}:1,,{B}:1"), 39),
        ] {
            assert_eq!(refusal(&text), ParseGtidError::EmptyMember { position }, "{text}");
        }
        let tag = refusal(&format!("{A}:1:b-d:1"));
        let source = TagError::Character {
            character: '-',
            index: 1,
        };
        assert_eq!(
            tag,
            ParseGtidError::Tag {
                position: 39,
                text: "b-d".to_owned(),
                source
            }
        );
    }

    /// A megabyte of rubbish makes an error of a readable length.
    #[test]
    fn errors_stay_short() {
        let rubbish = "x".repeat(1 << 20);
        for text in [
            rubbish.clone(),
            format!("{A}:{rubbish}:1"),
            format!("{A}:1{rubbish}"),
            format!("{A}:{}", "9".repeat(1 << 20)),
        ] {
            assert!(refusal(&text).to_string().len() < 250);
        }
    }

    /// In JSON a set is a string, anything else is refused, and the schema says so.
    #[test]
    fn json_is_a_string() {
        let text = serde_json::json!(format!("{A}:1-2,\n{B}:3"));
        assert_eq!(
            serde_json::from_value::<GtidSet>(text).unwrap(),
            set(&format!("{A}:1-2,{B}:3"))
        );
        assert!(serde_json::from_value::<GtidSet>(serde_json::json!(5)).is_err());
        let refused = serde_json::from_value::<GtidSet>(serde_json::json!("nonsense:1")).unwrap_err();
        assert!(
            refused.to_string().contains("\"nonsense\" is not a server UUID"),
            "{refused}"
        );
        let schema = schemars::schema_for!(GtidSet);
        assert_eq!(schema.get("type"), Some(&serde_json::json!("string")));
    }
}
