//! The pre-write gate, and how far an interrupted promotion got, judged on what the servers answer.

use bloodraven_failover::judge::{Answers, Bound, GateShut, Peers, TargetState, gate, peers, promotable, target_state};
use bloodraven_gtid::GtidSet;
use bloodraven_types::observation::ServerObservation;
use bloodraven_types::{Reason, SiteRole};

use crate::kit::servers::{answer, channel, detached, fenced, primary, replica, silence};
use crate::kit::{AMS, FRA, IAD, PDX, facts, groups, server, site};

fn judged(target: &ServerObservation, answers: &Answers, fenced_set: &str) -> Result<Peers, GateShut> {
    let fenced: GtidSet = fenced_set.parse().unwrap();
    let bound = Bound {
        source_server_uuid: server(IAD),
        target_server_uuid: server(PDX),
        fenced: &fenced,
    };
    gate(&groups::orders(), (&site(IAD), &site(PDX)), bound, target, answers)
}

/// The gate with one change of the target or of the answers.
fn shut(change: impl FnOnce(&mut ServerObservation, &mut Answers)) -> GateShut {
    let (mut target, mut answers) = (detached(PDX), fenced());
    change(&mut target, &mut answers);
    judged(&target, &answers, &facts::fenced_set()).unwrap_err()
}

fn state(target: &ServerObservation) -> TargetState {
    let fenced: GtidSet = facts::fenced_set().parse().unwrap();
    let bound = Bound {
        source_server_uuid: server(IAD),
        target_server_uuid: server(PDX),
        fenced: &fenced,
    };
    target_state(target, bound)
}

/// The gate opens for the recorded, detached target that holds exactly the fenced set, beside a fenced source and read-only
/// peers. spec: PF-PRO-02
#[test]
fn the_gate_opens_when_every_line_holds() {
    assert_eq!(
        judged(&detached(PDX), &fenced(), &facts::fenced_set()),
        Ok(Peers::default())
    );
}

/// The gate compares sets as sets: repeated UUIDs, line breaks and tags; a part of the set is not the set.
/// spec: PF-PRO-02 report: B01 report: B02 report: B04
#[test]
fn the_gate_compares_sets_as_sets() {
    let (iad, fra) = (server(IAD), server(FRA));
    let open = |fenced_set: &str, executed: &str| {
        let mut target = detached(PDX);
        target.gtid_executed = executed.to_owned();
        let mut answers = fenced();
        answer(&mut answers, IAD).gtid_executed = fenced_set.to_owned();
        judged(&target, &answers, fenced_set)
    };
    let twice = format!("{iad}:100-200,{iad}:300-400");
    assert!(open(&twice, &format!("{iad}:100-200:300-400")).is_ok());
    assert_eq!(
        open(&twice, &format!("{iad}:300-400")).unwrap_err().reason,
        Reason::TargetChanged
    );
    let lines = format!("{iad}:1-5,\n{fra}:1-9");
    assert!(open(&lines, &format!("{fra}:1-9, {iad}:1-5,\n")).is_ok());
    let tagged = format!("{iad}:1-5:sometag:1-2");
    assert!(open(&tagged, &tagged).is_ok());
    assert_eq!(
        open(&tagged, &format!("{iad}:1-5")).unwrap_err().reason,
        Reason::TargetChanged
    );
    assert!(open("", "").is_ok(), "an empty fenced set is valid");
    assert_eq!(
        open("", &format!("{iad}:1")).unwrap_err().reason,
        Reason::DivergentTarget
    );
}

/// A set that cannot be parsed keeps the gate shut, whoever has it. report: B04
#[test]
fn an_unreadable_set_keeps_the_gate_shut() {
    let refused = shut(|target, _| target.gtid_executed = "mysqlsh".to_owned());
    assert_eq!(refused.reason, Reason::InvalidGTID);
    let refused = shut(|_, answers| answer(answers, IAD).gtid_executed = "mysqlsh".to_owned());
    assert_eq!(refused.reason, Reason::InvalidGTID);
}

/// A target with any channel is refused, the default one or a named one, running or not. spec: PF-PRO-02 report: B29
#[test]
fn a_target_with_any_channel_is_refused() {
    for (name, running) in [("", true), ("", false), ("analytics", true), ("analytics", false)] {
        let refused = shut(|target, _| {
            let mut channel = channel();
            channel.name = name.to_owned();
            channel.io_running = running;
            channel.sql_running = running;
            target.channels = vec![channel];
        });
        assert_eq!(refused.reason, Reason::TargetChanged, "{name:?} {running}");
    }
}

/// One transaction more between the catch-up and the gate is seen, and so is another server. spec: PF-PRO-02 report: B29 report: B73
#[test]
fn a_target_that_changed_since_is_refused() {
    let extra = format!("{}:1-101", server(IAD));
    assert_eq!(
        shut(|target, _| target.gtid_executed = extra).reason,
        Reason::DivergentTarget
    );
    let own = format!("{}:1-100,{}:1", server(IAD), server(PDX));
    assert_eq!(
        shut(|target, _| target.gtid_executed = own).reason,
        Reason::DivergentTarget
    );
    let replaced = shut(|target, _| target.server_uuid = server("other"));
    assert_eq!(replaced.reason, Reason::TargetChanged);
    assert!(!replaced.transient);
}

/// The source must be the fenced server, still fenced, with nothing past the fenced set; silence may pass, the rest may not.
/// spec: PF-PRO-02, PF-PRO-03 report: B21 report: B22
#[test]
fn the_source_must_still_hold() {
    let refused = shut(|_, answers| answer(answers, IAD).super_read_only = false);
    assert_eq!(
        (refused.reason, refused.transient),
        (Reason::SourceUnfenced, false),
        "read_only=ON is no fence"
    );
    let refused = shut(|_, answers| {
        answers.insert(site(IAD), Ok(primary(IAD)));
    });
    assert_eq!(refused.reason, Reason::SourceUnfenced);
    let refused = shut(|_, answers| answer(answers, IAD).server_uuid = server("other"));
    assert_eq!((refused.reason, refused.transient), (Reason::AuthorityChanged, false));
    let past = format!("{}:1-101", server(IAD));
    let refused = shut(|_, answers| answer(answers, IAD).gtid_executed = past);
    assert_eq!(refused.reason, Reason::AuthorityChanged);
    assert!(
        refused.detail.contains(&format!("{}:101", server(IAD))),
        "{}",
        refused.detail
    );
    let refused = shut(|_, answers| silence(answers, IAD));
    assert_eq!((refused.reason, refused.transient), (Reason::SourceLost, true));
    let refused = shut(|_, answers| {
        answers.remove(&site(IAD));
    });
    assert_eq!((refused.reason, refused.transient), (Reason::SourceLost, true));
    assert_eq!(refused.ambiguous_sites, [site(IAD)]);
}

/// What the target wrote itself and the source got back by replication is no write past the fence. spec: PF-PRO-02
#[test]
fn the_targets_own_writes_on_the_source_do_not_count() {
    let mut answers = fenced();
    answer(&mut answers, IAD).gtid_executed = format!("{},{}:1-3", facts::fenced_set(), server(PDX));
    assert!(judged(&detached(PDX), &answers, &facts::fenced_set()).is_ok());
}

/// Another writable site shuts the gate, a reader too; it counts as writable while super_read_only is off.
/// spec: PF-PRO-02, PF-ADM-13 report: B21
#[test]
fn another_writable_site_shuts_the_gate() {
    for name in [FRA, AMS] {
        let refused = shut(|_, answers| answer(answers, name).super_read_only = false);
        assert_eq!((refused.reason, refused.transient), (Reason::ForeignWritable, false));
        assert_eq!(refused.ambiguous_sites, [site(name)]);
    }
}

/// A silent peer that must answer shuts the gate for the moment, an unprobed one too; a silent reader is told on.
/// spec: PF-PRO-04, PF-ADM-13
#[test]
fn a_silent_peer_shuts_the_gate_for_the_moment() {
    let refused = shut(|_, answers| silence(answers, FRA));
    assert_eq!((refused.reason, refused.transient), (Reason::PeerUnreadable, true));
    assert_eq!(refused.ambiguous_sites, [site(FRA)]);
    let refused = shut(|_, answers| {
        answers.remove(&site(FRA));
    });
    assert_eq!(refused.reason, Reason::PeerUnreadable);
    let mut answers = fenced();
    silence(&mut answers, AMS);
    let peers = judged(&detached(PDX), &answers, &facts::fenced_set()).unwrap();
    assert_eq!(peers.silent_readers, [site(AMS)]);
}

/// A target whose role changed in the spec is refused, before anything else is looked at. spec: PF-PRO-05
#[test]
fn a_target_of_another_role_is_refused() {
    for role in [SiteRole::DisasterRecovery, SiteRole::ReadOnly] {
        let mut group = groups::orders();
        groups::spec_of(&mut group, PDX).role = role;
        let refused = promotable(&group, &site(PDX)).unwrap_err();
        assert_eq!(refused.reason, Reason::TargetNotPromotable);
        let fenced_set: GtidSet = facts::fenced_set().parse().unwrap();
        let bound = Bound {
            source_server_uuid: server(IAD),
            target_server_uuid: server(PDX),
            fenced: &fenced_set,
        };
        let refused = gate(
            &group,
            (&site(IAD), &site(PDX)),
            bound,
            &detached(PDX),
            &Answers::default(),
        );
        assert_eq!(refused.unwrap_err().reason, Reason::TargetNotPromotable);
    }
    assert!(promotable(&groups::orders(), &site(PDX)).is_ok());
    assert!(promotable(&groups::orders(), &site("nowhere")).is_err());
}

/// A re-run tells from the target alone how far an interrupted promotion got. spec: PF-PRO-06
#[test]
fn a_re_run_tells_how_far_it_got() {
    assert_eq!(state(&replica(PDX)), TargetState::Replica);
    assert_eq!(state(&detached(PDX)), TargetState::Detached);
    assert_eq!(state(&primary(PDX)), TargetState::Opened);
    let mut half_open = detached(PDX);
    half_open.super_read_only = false;
    assert_eq!(
        state(&half_open),
        TargetState::Opened,
        "the first statement alone opens it"
    );
    let mut wrote = primary(PDX);
    wrote.gtid_executed = format!("{},{}:1-9", facts::fenced_set(), server(PDX));
    assert_eq!(state(&wrote), TargetState::Opened, "with writes of its own");
}

/// A writable target that the run cannot have made is not explained. spec: PF-PRO-09
#[test]
fn a_writable_target_of_another_making_is_not_explained() {
    let mut with_channel = replica(PDX);
    with_channel.super_read_only = false;
    let mut short = primary(PDX);
    short.gtid_executed = format!("{}:1-99", server(IAD));
    let mut foreign = primary(PDX);
    foreign.gtid_executed = format!("{},{}:1", facts::fenced_set(), server(FRA));
    let mut past = primary(PDX);
    past.gtid_executed = format!("{}:1-101", server(IAD));
    for target in [with_channel, short, foreign, past] {
        assert!(matches!(state(&target), TargetState::Unexplained { .. }), "{target:?}");
        let refused = judged(&target, &fenced(), &facts::fenced_set()).unwrap_err();
        assert_eq!(refused.reason, Reason::ExecuteFailed);
    }
}

/// Peers are sorted by what they answered, and the named ones are left out.
#[test]
fn peers_are_sorted_by_their_answer() {
    let mut answers = fenced();
    silence(&mut answers, AMS);
    answers.remove(&site(FRA));
    let group = groups::orders();
    let sorted = peers(&group, &[&site(IAD), &site(PDX)], &answers);
    assert_eq!(sorted.silent_readers, [site(AMS)]);
    assert_eq!(sorted.unreadable, [(site(FRA), "not probed".to_owned())]);
    assert!(sorted.writable.is_empty());
}
