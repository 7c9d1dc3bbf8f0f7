//! Whether the claim can be granted, judged on what the servers answer.

use bloodraven_failover::judge::{Answers, Grant, grant};
use bloodraven_types::{Group, WaitReason};

use crate::kit::servers::{answer, healthy, silence};
use crate::kit::{AMS, FRA, IAD, PDX, groups, server, site};

fn granted(group: &Group, answers: &Answers) -> bloodraven_types::fact::Granted {
    match grant(group, &site(PDX), answers) {
        Grant::Granted(granted) => granted,
        Grant::Waiting(waiting) => panic!("{waiting:?}"),
    }
}

/// The answers of a healthy group with one change make the request wait: why, and with what detail.
fn waits(change: impl FnOnce(&mut Answers)) -> (WaitReason, String) {
    let mut answers = healthy();
    change(&mut answers);
    match grant(&groups::orders(), &site(PDX), &answers) {
        Grant::Waiting(waiting) => (waiting.reason, waiting.detail),
        Grant::Granted(granted) => panic!("{granted:?}"),
    }
}

/// A healthy group grants the claim, bound to the servers that answered. spec: PF-ADM-11
#[test]
fn a_healthy_group_grants() {
    let granted = granted(&groups::orders(), &healthy());
    assert_eq!(granted.source, site(IAD));
    assert_eq!(granted.source_server_uuid, server(IAD));
    assert_eq!(granted.target_server_uuid, server(PDX));
    assert!(granted.unreachable_readers.is_empty());
}

/// Without exactly one writable site, a candidate other than the target, authority is unsettled. spec: PF-ADM-11, PF-ADM-12
#[test]
fn exactly_one_other_candidate_is_writable() {
    use WaitReason::AuthorityUnsettled;
    let open = |name: &'static str| {
        move |answers: &mut Answers| {
            answer(answers, name).read_only = false;
            answer(answers, name).super_read_only = false;
        }
    };
    for second in [PDX, FRA, AMS] {
        let (reason, detail) = waits(open(second));
        assert_eq!(reason, AuthorityUnsettled);
        assert!(detail.contains(second) && detail.contains(IAD), "{detail}");
    }
    let fence = |answers: &mut Answers| answer(answers, IAD).super_read_only = true;
    assert_eq!(waits(fence).0, AuthorityUnsettled, "the source reads read-only");
    for only in [PDX, FRA] {
        let (reason, detail) = waits(|answers| {
            fence(answers);
            open(only)(answers);
        });
        assert_eq!(reason, AuthorityUnsettled);
        assert!(detail.contains(only), "{detail}");
    }
}

/// `read_only` alone proves nothing: such a site counts as writable beside the source, and such a source serves nobody.
/// spec: PF-ADM-11 report: B21
#[test]
fn read_only_alone_is_not_proven_fenced() {
    for second in [PDX, FRA, AMS] {
        let (reason, _) = waits(|answers| answer(answers, second).super_read_only = false);
        assert_eq!(reason, WaitReason::AuthorityUnsettled, "{second}");
    }
    let (reason, detail) = waits(|answers| answer(answers, IAD).read_only = true);
    assert_eq!(reason, WaitReason::AuthorityUnsettled);
    assert!(detail.contains("refuses application writes"), "{detail}");
    let (_, detail) = waits(|answers| answer(answers, IAD).offline_mode = true);
    assert!(detail.contains("refuses application writes"), "{detail}");
}

/// A site that must answer and does not is waited for; one that was not even probed is no better. spec: PF-ADM-14
#[test]
fn a_silent_peer_is_waited_for() {
    for name in [IAD, FRA] {
        let (reason, detail) = waits(|answers| silence(answers, name));
        assert_eq!(reason, WaitReason::PeerUnreadable, "{name}");
        assert!(detail.contains(name), "{detail}");
    }
    let (reason, detail) = waits(|answers| {
        answers.remove(&site(FRA));
    });
    assert_eq!(reason, WaitReason::PeerUnreadable);
    assert!(detail.contains(FRA), "{detail}");
}

/// A silent reader blocks nothing and is told on; a writable one blocks like any other. spec: PF-ADM-13
#[test]
fn a_silent_reader_blocks_nothing() {
    let mut answers = healthy();
    silence(&mut answers, AMS);
    assert_eq!(granted(&groups::orders(), &answers).unreachable_readers, [site(AMS)]);
    let (reason, _) = waits(|answers| answer(answers, AMS).super_read_only = false);
    assert_eq!(reason, WaitReason::AuthorityUnsettled);
}

/// A target that cannot take over is waited for, and the detail says what is wrong with it.
/// spec: PF-ADM-11, PF-ADM-12 report: B27 report: B28 report: B33
#[test]
fn a_target_that_is_not_ready_is_waited_for() {
    type Change = fn(&mut Answers);
    let cases: [(Change, &str); 9] = [
        (|answers| silence(answers, PDX), "does not answer: connection refused"),
        (
            |answers| {
                answers.remove(&site(PDX));
            },
            "was not probed",
        ),
        (
            |answers| answer(answers, PDX).channels.clear(),
            "has 0 replication channels",
        ),
        (
            |answers| {
                let second = answer(answers, PDX).channels[0].clone();
                answer(answers, PDX).channels.push(second);
            },
            "has 2 replication channels",
        ),
        (
            |answers| answer(answers, PDX).channels[0].sql_error = Some("1062 Duplicate entry".to_owned()),
            "has an applier error: 1062",
        ),
        (
            |answers| answer(answers, PDX).channels[0].sql_running = false,
            "does not run both replication threads",
        ),
        (
            |answers| {
                answer(answers, PDX).channels[0].io_running = false;
                answer(answers, PDX).channels[0].io_error = Some("1236 purged".to_owned());
            },
            "1236 purged",
        ),
        (
            |answers| answer(answers, PDX).channels[0].source_uuid = Some(server(FRA)),
            "follows 00000000-0000-0000-0000-000000000003",
        ),
        (
            |answers| answer(answers, PDX).channels[0].delay_seconds = 3600,
            "applies with a delay of 3600s",
        ),
    ];
    for (change, text) in cases {
        let (reason, detail) = waits(change);
        assert_eq!(reason, WaitReason::TargetNotReady, "{text}");
        assert!(detail.contains(text), "{detail}");
    }
    let (reason, detail) = waits(|answers| answer(answers, PDX).channels[0].source_uuid = None);
    assert_eq!(reason, WaitReason::TargetNotReady);
    assert!(detail.contains("no known server"), "{detail}");
}

/// Two sites with one server UUID cannot be told apart, so nothing is granted. report: B73
#[test]
fn a_duplicate_server_uuid_waits() {
    for (one, other) in [(PDX, IAD), (FRA, IAD), (FRA, PDX), (AMS, FRA)] {
        let (reason, detail) = waits(|answers| answer(answers, one).server_uuid = server(other));
        assert_eq!(reason, WaitReason::AuthorityUnsettled);
        assert!(
            detail.contains("server UUID") && detail.contains(one) && detail.contains(other),
            "{detail}"
        );
    }
}
