//! Each procedure, ended at each of its awaits and begun again by a process that knows nothing: the same end as without.

use bloodraven_executor::Superseded;
use bloodraven_failover::Input;
use bloodraven_failover::planned::PromotionFact;
use bloodraven_ports::ApplicationSession;
use bloodraven_sim::cast::{self, Mortal};
use bloodraven_sim::server::Application;
use bloodraven_sim::setting::{SOURCE, TARGET};
use bloodraven_sim::{Kind, Setting, World};
use bloodraven_types::fact::{PromotionFailed, PromotionReach};
use bloodraven_types::{Fact, Phase, Reason, SiteName};

use crate::common::{after_a_crash, first_hand, perform, take_in};

/// More awaits than any procedure has.
const AWAITS: u64 = 400;

/// Ends the procedure of the phase at every await, each in a world of its own; `whole` is what a second process is to find
/// and tell. Returns in how many worlds the procedure was ended before its time.
fn at_every_await(prepare: impl Fn(u64) -> World, whole: impl Fn(&World, &Fact)) -> u64 {
    for polls in 0..AWAITS {
        let world = prepare(polls);
        // Some of the sessions of the process that ends are noticed by their servers, some are not.
        world.state().lingering = 500;
        let hands = world.hands();
        let superseded = Superseded::default();
        let first = Mortal::after(polls, cast::perform(&world, &hands, first_hand(&world), &superseded));
        let outcome = world.run(first).unwrap();
        drop(hands);
        if let Some(fact) = &outcome {
            whole(&world, fact.as_ref().unwrap());
            return polls;
        }
        let fact = perform(&world, after_a_crash(&world)).unwrap();
        whole(&world, &fact);
        assert_eq!(
            world.violations(),
            Vec::<String>::new(),
            "ended at await {polls}\n{}",
            world.journal().text()
        );
    }
    panic!("a procedure with more than {AWAITS} awaits");
}

fn in_phase(phase: Phase) -> impl Fn(u64) -> World {
    move |seed| {
        let world = Setting::new(seed).build();
        world.bring_to(phase);
        world
    }
}

/// spec: PF-FEN-02, PF-FEN-05; report: B26
#[test]
fn a_fence_survives_every_crash() {
    let crashes = at_every_await(in_phase(Phase::Fencing), |world, fact| {
        assert!(matches!(fact, Fact::Fenced(_)), "{fact:?}");
        assert!(world.state().server(SOURCE).unwrap().super_read_only);
        assert!(world.journal().role_changes(TARGET).is_empty());
    });
    assert!(crashes >= 10, "{crashes}");
}

/// spec: PF-DRN-01
#[test]
fn a_drain_survives_every_crash() {
    let busy = |seed| {
        let world = in_phase(Phase::Draining)(seed);
        world.state().change(SOURCE, |server| {
            let sessions = (0..5).map(|id| Application {
                session: ApplicationSession {
                    id: 1_000 + id,
                    user: "orders".to_owned(),
                    host: "198.51.100.7".to_owned(),
                    seconds: 1,
                },
                killable: true,
            });
            server.applications = sessions.collect();
        });
        world
    };
    let crashes = at_every_await(busy, |world, fact| {
        assert!(
            matches!(fact, Fact::Drained(drained) if drained.remaining_connections == Some(0)),
            "{fact:?}"
        );
        assert!(world.state().server(SOURCE).unwrap().applications.is_empty());
    });
    assert!(crashes >= 10, "{crashes}");
}

/// Whatever the first process got done, the second one leaves the target open, without a channel, and sends the write at
/// most once more. spec: PF-PRO-06, PF-PRO-01, X-AUTH-01; report: B26, B22
#[test]
fn a_promotion_survives_every_crash() {
    let crashes = at_every_await(in_phase(Phase::Promoting), |world, fact| {
        assert!(matches!(fact, Fact::Promoted(_)), "{fact:?}");
        let state = world.state();
        let target = state.servers.get(&SiteName::new(TARGET)).unwrap();
        assert!(target.serves_writes() && target.channels.is_empty());
        assert!(state.journal.role_changes(SOURCE).is_empty());
        assert_eq!(
            state.journal.times(TARGET, Kind::OpenForWrites),
            1,
            "{}",
            state.journal.text()
        );
    });
    assert!(crashes >= 15, "{crashes}");
}

fn going_back(seed: u64) -> World {
    let world = in_phase(Phase::Promoting)(seed);
    world.state().change(TARGET, |server| {
        server.channels.clear();
        server.super_read_only = false;
    });
    world.feed(Input::Promotion(PromotionFact::Failed(PromotionFailed {
        reason: Reason::PromotionAborted,
        detail: "as the test wants it".to_owned(),
        reached: PromotionReach::NothingWritten,
        ambiguous_sites: Vec::new(),
    })));
    world
}

/// spec: PF-RBK-03, PF-RBK-07
#[test]
fn a_restoration_survives_every_crash() {
    let crashes = at_every_await(going_back, |world, fact| {
        assert!(
            matches!(fact, Fact::TargetRestored(target) if target.replicating && target.super_read_only),
            "{fact:?}"
        );
        assert!(world.state().server(TARGET).unwrap().super_read_only);
    });
    assert!(crashes >= 15, "{crashes}");
}

/// spec: PF-RBK-07; report: B22
#[test]
fn an_unfence_survives_every_crash() {
    let restored = |seed| {
        let world = going_back(seed);
        let fact = perform(&world, first_hand(&world)).unwrap();
        take_in(&world, fact);
        world
    };
    let crashes = at_every_await(restored, |world, fact| {
        assert!(matches!(fact, Fact::Unfenced(_)), "{fact:?}");
        assert!(world.state().server(SOURCE).unwrap().serves_writes());
        assert!(!world.state().server(TARGET).unwrap().serves_writes());
    });
    assert!(crashes >= 8, "{crashes}");
}
