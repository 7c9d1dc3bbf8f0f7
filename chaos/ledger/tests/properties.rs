//! Generated histories with a known number of faults give exactly that number back.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests; clippy knows only the test functions themselves"
)]

mod support;

use proptest::prelude::*;
use support::{Story, at};

/// One term of service: which server, how long, and how long nobody serves after it.
#[derive(Debug, Clone)]
struct Term {
    pdx: bool,
    length: i64,
    outage: i64,
    sessions: u64,
}

/// What is to become of a write.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Injected {
    Nothing,
    Gone,
    Stolen,
    UnknownPresent,
    UnknownAbsent,
}

fn terms() -> impl Strategy<Value = Vec<Term>> {
    let term = (any::<bool>(), 30_i64..300, 20_i64..200, 1_u64..5);
    prop::collection::vec(
        term.prop_map(|(pdx, length, outage, sessions)| Term {
            pdx,
            length,
            outage,
            sessions,
        }),
        1..8,
    )
}

fn injected() -> impl Strategy<Value = Injected> {
    prop_oneof![
        6 => Just(Injected::Nothing),
        1 => Just(Injected::Gone),
        1 => Just(Injected::Stolen),
        1 => Just(Injected::UnknownPresent),
        1 => Just(Injected::UnknownAbsent),
    ]
}

/// Plays terms of service one after the other, each over sessions of its own. Returns the story and its longest outage.
fn play(terms: &[Term]) -> (Story, i64) {
    let total: i64 = terms.iter().map(|term| term.length + term.outage).sum();
    let mut story = Story::lasting(total);
    let (mut now, mut session) = (0, 0);
    for term in terms {
        for offset in 0..term.sessions {
            let phase = i64::try_from(offset * 10 / term.sessions).unwrap();
            story.serve(
                if term.pdx { "pdx" } else { "iad" },
                session,
                (now + phase, now + term.length),
            );
            session += 1;
        }
        now += term.length + term.outage;
    }
    let mut acks: Vec<i64> = story
        .history
        .acknowledged
        .iter()
        .map(|write| write.acked.as_nanoseconds() / 1_000_000)
        .collect();
    acks.push(at(total).as_nanoseconds() / 1_000_000);
    acks.sort_unstable();
    let longest = acks.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    (story, longest)
}

proptest! {
    /// Any sequence of hand-overs, there and back as often as one likes, is clean, and its longest gap is the outage
    /// (spec: SB-03, X-PERF-01).
    #[test]
    fn hand_overs_are_clean(terms in terms()) {
        let (story, longest) = play(&terms);
        let report = story.judge();
        prop_assert!(report.is_clean(), "{}", report);
        prop_assert_eq!(report.overlap_ms, 0.0);
        prop_assert_eq!(report.write_outage_ms, longest as f64);
    }

    /// Writes that were made to vanish or to lose their id are counted, each once and under its own name, and unknown
    /// writes never are (spec: SB-01, SB-03).
    #[test]
    fn injected_damage_is_counted(terms in terms(), faults in prop::collection::vec(injected(), 1..400)) {
        let (mut story, _) = play(&terms);
        let (mut gone, mut stolen, mut present, mut absent) = (0, 0, 0, 0);
        let writes: Vec<_> = story.history.acknowledged.clone();
        for (write, fault) in writes.iter().zip(faults) {
            let row = story.rows.iter().position(|row| row.id == write.id).unwrap();
            match fault {
                Injected::Nothing => {}
                Injected::Gone => {
                    story.rows.remove(row);
                    gone += 1;
                }
                Injected::Stolen => {
                    story.rows[row].key = format!("thief-of-{}", write.id);
                    stolen += 1;
                }
                Injected::UnknownPresent | Injected::UnknownAbsent => {
                    let times = (0, 1);
                    let kind = bloodraven_ledger::UnconfirmedKind::Unknown;
                    let key = story.unconfirmed(kind, "iad", "connection-lost", times);
                    if fault == Injected::UnknownPresent {
                        story.survive(1_000_000 + write.id, key.as_str());
                        present += 1;
                    } else {
                        absent += 1;
                    }
                }
            }
        }
        let report = story.judge();
        prop_assert_eq!((report.gone, report.stolen), (gone, stolen));
        prop_assert_eq!(report.intact, report.acknowledged - gone - stolen);
        prop_assert_eq!((report.unknown.present, report.unknown.absent), (present, absent));
        prop_assert_eq!(report.is_clean(), gone + stolen == 0);
        prop_assert_eq!(report.gone_samples.len() as u64, gone.min(20));
        prop_assert_eq!(report.stolen_samples.len() as u64, stolen.min(20));
    }

    /// An old primary that goes on for any time of two ticks or more into the next term is found, and the time found is
    /// never longer than the true one and at most two ticks shorter (spec: SB-03).
    #[test]
    fn an_injected_overlap_is_measured(terms in terms(), which in any::<prop::sample::Index>(), extra in 20_i64..150) {
        let mut terms = terms;
        for (index, term) in terms.iter_mut().enumerate() {
            term.pdx = index % 2 == 1;
            term.length = term.length.max(extra + 30);
        }
        prop_assume!(terms.len() > 1);
        let chosen = which.index(terms.len() - 1);
        let (mut story, _) = play(&terms);
        let start: i64 = terms[..chosen].iter().map(|term| term.length + term.outage).sum();
        let next = start + terms[chosen].length + terms[chosen].outage;
        story.serve(if terms[chosen].pdx { "pdx" } else { "iad" }, 900, (start + 7, next + extra));
        let report = story.judge();
        prop_assert!(!report.is_clean());
        prop_assert_eq!(report.overlaps.len(), 1);
        prop_assert!(report.overlap_ms <= extra as f64, "{} ms of {extra}", report.overlap_ms);
        prop_assert!(report.overlap_ms >= (extra - 20) as f64, "{} ms of {extra}", report.overlap_ms);
        prop_assert!(report.overlaps[0].start >= at(next));
        prop_assert!(report.overlaps[0].end <= at(next + extra));
    }
}
