//! A naive model of GTID sets, and random sets as a careless writer would spell them. Shared by the property tests
//! and by the comparison with a real server.

use std::collections::BTreeSet;

use bloodraven_gtid::{GtidSet, MAXIMUM_SEQUENCE_NUMBER, Tag};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use uuid::Uuid;

/// One GTID per element: source UUID, tag, sequence number.
pub(crate) type Model = BTreeSet<(Uuid, Option<Tag>, u64)>;

/// A set as the model sees it and as text.
#[derive(Clone, Debug)]
pub(crate) struct Spelled {
    pub(crate) model: Model,
    pub(crate) text: String,
}

impl Spelled {
    /// What the parser makes of the text.
    pub(crate) fn parsed(&self) -> GtidSet {
        match self.text.parse() {
            Ok(set) => set,
            Err(error) => panic!("{:?}: {error}", self.text),
        }
    }
}

/// The UUIDs in use. The sequence numbers of the last one end at the highest possible number.
const UUIDS: [u128; 3] = [
    0x0000_0000_0000_0000_0000_0000_0000_000a,
    0x3e11_fa47_71ca_11e1_9e33_c80a_a942_9562,
    0xffff_ffff_0000_11f0_8000_0242_ac12_0002,
];
const TAGS: [&str; 4] = ["_", "a", "a1", "mysqlsh"];
/// Sequence numbers per source; few, so that random intervals meet, overlap and leave gaps of one.
const NUMBERS: u64 = 24;

/// Reads the set back into the model by asking for every GTID that the generator can make.
pub(crate) fn model_of(set: &GtidSet) -> Model {
    let tags = || std::iter::once(None).chain(TAGS.map(tag).map(Some));
    let sources = UUIDS.into_iter().flat_map(|uuid| tags().map(move |tag| (uuid, tag)));
    let gtids = sources.flat_map(|(uuid, tag)| {
        let uuid = Uuid::from_u128(uuid);
        (1..=NUMBERS).map(move |number| (uuid, tag.clone(), shifted(uuid, number)))
    });
    gtids
        .filter(|(uuid, tag, number)| set.contains_gtid(*uuid, tag.as_ref(), *number))
        .collect()
}

/// A random set, empty at times: members in any order and number, a UUID and a tag more than once, blanks,
/// upper case, leading zeros.
pub(crate) fn spelled() -> impl Strategy<Value = Spelled> {
    (vec(member(), 0..6), blank(), select(vec!["", ",", " ,\n"])).prop_map(|(members, blank, last)| {
        let separator = format!("{blank},{blank}");
        let (models, texts): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let last = if texts.is_empty() { "" } else { last };
        let text = format!("{blank}{}{last}{blank}", texts.join(&separator));
        Spelled {
            model: models.into_iter().flatten().collect(),
            text,
        }
    })
}

/// One UUID with untagged intervals, tagged ones or both.
fn member() -> impl Strategy<Value = (Model, String)> {
    let untagged = vec(interval(), 0..4);
    let tagged = vec((select(TAGS.to_vec()), vec(interval(), 1..4)), 0..3);
    let uuid = (select(UUIDS.to_vec()), 0..3_u8);
    let parts = (uuid, blank(), untagged, tagged);
    parts.prop_filter_map(
        "a member needs an interval",
        |((uuid, spelling), blank, untagged, tagged)| {
            if untagged.is_empty() && tagged.is_empty() {
                return None;
            }
            let uuid = Uuid::from_u128(uuid);
            let mut member = (Model::new(), spell_uuid(uuid, spelling));
            append(&mut member, (uuid, None), &untagged, blank);
            for (name, intervals) in tagged {
                let name_text = if spelling == 0 {
                    name.to_owned()
                } else {
                    name.to_uppercase()
                };
                member.1.push_str(&format!("{blank}:{blank}{name_text}"));
                append(&mut member, (uuid, Some(tag(name))), &intervals, blank);
            }
            Some(member)
        },
    )
}

/// Adds the intervals of one source to both sides of a member.
fn append(
    (model, text): &mut (Model, String),
    (uuid, tag): (Uuid, Option<Tag>),
    intervals: &[(u64, u64)],
    blank: &str,
) {
    for &(start, end) in intervals {
        let (start, end) = (shifted(uuid, start), shifted(uuid, end));
        model.extend((start..=end).map(|number| (uuid, tag.clone(), number)));
        if start == end {
            text.push_str(&format!("{blank}:{blank}{start:02}"));
        } else {
            text.push_str(&format!(":{blank}{start}{blank}-{blank}{end}"));
        }
    }
}

fn interval() -> impl Strategy<Value = (u64, u64)> {
    (1..=NUMBERS, 0..6_u64).prop_map(|(start, more)| (start, NUMBERS.min(start + more)))
}

fn blank() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", " ", "\n", "\t", " \r\n"])
}

fn spell_uuid(uuid: Uuid, spelling: u8) -> String {
    match spelling {
        0 => uuid.to_string(),
        1 => uuid.hyphenated().to_string().to_uppercase(),
        _ => uuid.braced().to_string(),
    }
}

/// Moves the numbers of the last UUID up to the end of the range.
fn shifted(uuid: Uuid, number: u64) -> u64 {
    let is_last = UUIDS.last().is_some_and(|&last| Uuid::from_u128(last) == uuid);
    if is_last {
        MAXIMUM_SEQUENCE_NUMBER - NUMBERS + number
    } else {
        number
    }
}

fn tag(name: &str) -> Tag {
    match name.parse() {
        Ok(tag) => tag,
        Err(error) => panic!("{name}: {error}"),
    }
}
