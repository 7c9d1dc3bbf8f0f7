//! The pre-write gate: what it reads, what keeps it shut, and what is read again right before the write.

use std::time::Duration;

use bloodraven_executor::hands::Refused;
use bloodraven_sim::server::{Link, Replica, Server};
use bloodraven_sim::setting::{PEER, READER, SOURCE, TARGET, address, uuid_of};
use bloodraven_sim::{Fault, Kind, Moment, World};
use bloodraven_types::annotation::{self, RunSince};
use bloodraven_types::fact::PromotionReach;
use bloodraven_types::group::FailoverRecord;
use bloodraven_types::{Fact, Group, Outcome, Reason, SiteName, SiteRole};

use crate::common::{
    after_a_crash, carry_out, first_hand, is_about, move_record_on, perform, silence, take_in, timed, to_the_end,
};
use crate::promote::{after, before, failed, is_promoted, promoting, reason, sent};

/// Whether applications could write to the target at any moment.
fn was_opened(world: &World) -> bool {
    world.journal().times(TARGET, Kind::OpenForWrites) > 0
}

/// One more transaction between the catch-up and STOP, between RESET and the gate, or a channel that comes back: the gate
/// reads again on the same session and stays shut. spec: PF-PRO-02; report: B29
#[test]
fn the_gate_reads_again() {
    let world = promoting(12);
    world.at(after(Kind::Observe), |state| {
        state.commit(TARGET);
    });
    assert_eq!(
        reason(&carry_out(&world)),
        (Reason::DivergentTarget, PromotionReach::NothingWritten)
    );
    assert!(!was_opened(&world));

    let world = promoting(13);
    world.at(after(Kind::ResetReplicaAll), |state| {
        state.commit(TARGET);
    });
    assert_eq!(
        reason(&carry_out(&world)),
        (Reason::DivergentTarget, PromotionReach::NothingWritten)
    );
    assert!(!was_opened(&world));

    for name in ["", "other"] {
        let world = promoting(14);
        world.at(after(Kind::ResetReplicaAll), move |state| {
            state.change(TARGET, |server| {
                let mut channel = Replica::running(address(PEER), Duration::ZERO);
                channel.name = name.to_owned();
                channel.stop();
                server.channels.push(channel);
            });
        });
        assert_eq!(
            reason(&carry_out(&world)),
            (Reason::TargetChanged, PromotionReach::NothingWritten),
            "{name:?}"
        );
        assert!(!was_opened(&world));
    }
}

/// The source at the gate: another server, writable, or with a transaction past the fenced set keeps the gate shut; what
/// the target wrote itself and the source got back does not. spec: PF-PRO-02
#[test]
fn the_source_must_hold_at_the_gate() {
    let replaced = promoting(15);
    replaced.state().change(SOURCE, |server| server.replace(uuid_of("new")));
    let opened = promoting(16);
    opened.state().change(SOURCE, Server::open);
    let past = promoting(17);
    past.state().commit(SOURCE);
    past.state()
        .change(TARGET, |server| server.channels.iter_mut().for_each(Replica::stop));
    let expected = [
        (replaced, Reason::AuthorityChanged),
        (opened, Reason::SourceUnfenced),
        (past, Reason::AuthorityChanged),
    ];
    for (world, expected) in expected {
        assert_eq!(reason(&carry_out(&world)), (expected, PromotionReach::NothingWritten));
        assert!(!was_opened(&world));
    }
    let world = promoting(18);
    world.state().change(TARGET, |server| {
        server.channels.clear();
        server.open();
    });
    let own = world.state().client_write(&SiteName::new(TARGET)).unwrap();
    world.state().change(SOURCE, |server| server.apply(own, Duration::ZERO));
    assert!(is_promoted(&perform(&world, after_a_crash(&world)).unwrap()));
}

/// A peer of any role that takes writes keeps the gate shut and is named. spec: PF-PRO-02, PF-PRO-11
#[test]
fn a_writable_peer_shuts_the_gate() {
    for peer in [PEER, READER] {
        let world = promoting(19);
        world.state().change(peer, Server::open);
        let fact = carry_out(&world);
        assert_eq!(reason(&fact), (Reason::ForeignWritable, PromotionReach::NothingWritten));
        assert_eq!(failed(&fact).ambiguous_sites, [SiteName::new(peer)]);
        assert!(!was_opened(&world));
    }
}

/// A source that the gate cannot read is looked at for ten seconds; it is lost then, and the gate opens if it comes back.
/// spec: PF-PRO-03, PF-LOS-01
#[test]
fn a_silent_source_at_the_gate() {
    let world = promoting(20);
    silence(&world, SOURCE);
    let (fact, took) = timed(&world, || carry_out(&world));
    assert_eq!(reason(&fact), (Reason::SourceLost, PromotionReach::NothingWritten));
    assert!(is_about(took, 10), "{took:?}");
    assert!(!was_opened(&world));

    let world = promoting(21);
    silence(&world, SOURCE);
    world.at_later(after(Kind::Observe), 3, |state| {
        state.change(SOURCE, |server| server.link = Link::Up);
    });
    assert!(is_promoted(&carry_out(&world)));
}

/// Once the target holds the run's write, a source or a peer that the gate cannot read ends the run at once, unconfirmed.
/// spec: PF-PRO-03, PF-PRO-04
#[test]
fn silence_after_the_write_is_unconfirmed_at_once() {
    for (site, expected) in [(SOURCE, Reason::SourceLost), (PEER, Reason::PeerUnreadable)] {
        let world = promoting(22);
        world.state().change(TARGET, |server| {
            server.channels.clear();
            server.open();
        });
        silence(&world, site);
        let (fact, took) = timed(&world, || perform(&world, after_a_crash(&world)).unwrap());
        assert_eq!(reason(&fact), (expected, PromotionReach::Writable));
        assert!(took < Duration::from_secs(5), "{took:?}");
        let result = take_in(&world, fact).run().unwrap().result.clone().unwrap();
        assert_eq!(
            (result.outcome, result.reason),
            (Outcome::PromotedUnconfirmed, Some(expected))
        );
    }
}

/// A peer that must answer and does not keeps the gate shut: after one more look the run goes back. A reader does not.
/// spec: PF-PRO-04
#[test]
fn a_silent_peer_at_the_gate() {
    let world = promoting(23);
    silence(&world, PEER);
    let fact = carry_out(&world);
    assert_eq!(reason(&fact), (Reason::PeerUnreadable, PromotionReach::NothingWritten));
    assert_eq!(failed(&fact).ambiguous_sites, [SiteName::new(PEER)]);
    assert!(!was_opened(&world));

    let world = promoting(24);
    silence(&world, READER);
    let fact = carry_out(&world);
    let Fact::Promoted(promoted) = &fact else {
        panic!("{fact:?}")
    };
    assert_eq!(promoted.unreachable_peers, [SiteName::new(READER)]);
}

/// A target that is no candidate any more is left as it is: before STOP, and at the gate. spec: PF-PRO-05; report: B61
#[test]
fn a_role_change_stops_the_promotion() {
    let demote = |state: &mut bloodraven_sim::WorldState| {
        state.edit(|group| {
            let target = group
                .spec
                .sites
                .iter_mut()
                .find(|site| site.name.as_str() == TARGET)
                .unwrap();
            target.role = SiteRole::DisasterRecovery;
        });
    };
    for moment in [before(Kind::TakeAuthority), after(Kind::TakeAuthority)] {
        let world = promoting(25);
        world.at(moment.clone(), demote);
        assert_eq!(
            reason(&carry_out(&world)),
            (Reason::TargetNotPromotable, PromotionReach::NothingWritten)
        );
        assert!(sent(&world).is_empty(), "{moment:?}");
    }
    let world = promoting(26);
    world.at(after(Kind::ResetReplicaAll), demote);
    let fact = carry_out(&world);
    assert_eq!(
        reason(&fact),
        (Reason::TargetNotPromotable, PromotionReach::NothingWritten)
    );
    assert!(!was_opened(&world));
    take_in(&world, fact);
    world.state().change(TARGET, |server| server.link = Link::Up);
    let result = to_the_end(&world);
    assert_eq!(
        (result.outcome, result.reason),
        (Outcome::RolledBack, Some(Reason::TargetNotPromotable))
    );
}

/// The claim is read again right before the write: a record that moves on at any moment before it keeps the target shut,
/// also while a slow peer holds the gate up. So does a failover that somebody else recorded, a claim that was released, and
/// a group that was made again. spec: PF-CLM-04, PF-CLM-05, PF-CLM-08; report: B30
#[test]
fn nothing_is_opened_once_the_record_has_moved_on() {
    let others: [fn(&mut Group); 4] = [move_record_on, record_a_failover, release_the_claim, make_it_again];
    for other in others {
        for moment in [
            before(Kind::TakeAuthority),
            after(Kind::TakeAuthority),
            after(Kind::StopReplica),
            after(Kind::ResetReplicaAll),
        ] {
            let world = promoting(27);
            world.at(moment.clone(), move |state| state.edit(other));
            let outcome = perform(&world, first_hand(&world));
            assert!(matches!(outcome, Err(Refused::NotLive(_))), "{moment:?}: {outcome:?}");
            assert!(!was_opened(&world), "{moment:?}");
        }
    }
    let world = promoting(28);
    world.fault(PEER, Kind::Observe, Fault::Slow(Duration::from_millis(800)));
    world.at(Moment::Before(SiteName::new(PEER), Kind::Observe), |state| {
        state.edit(move_record_on)
    });
    let outcome = perform(&world, first_hand(&world));
    assert!(matches!(outcome, Err(Refused::NotLive(_))), "{outcome:?}");
    assert!(!was_opened(&world));
}

fn record_a_failover(group: &mut Group) {
    group.status.last_failover = Some(FailoverRecord {
        time: group.run().unwrap().start_time.after(Duration::from_secs(1)),
        target: SiteName::new(SOURCE),
        promotion_gtid_executed: None,
    });
}

fn release_the_claim(group: &mut Group) {
    let run = group.run().unwrap();
    let confirmed = RunSince {
        run_id: run.run_id,
        since: run.start_time,
    };
    group
        .annotations
        .insert(annotation::CONFIRMED.to_owned(), confirmed.to_string());
}

fn make_it_again(group: &mut Group) {
    group.uid = "uid-2".into();
}
