//! What the tests of procedures share: an order of the record's own, its carrying out, and short names.

use std::time::Duration;

use bloodraven_executor::hands::Refused;
use bloodraven_executor::{Order, Superseded};
use bloodraven_failover::Input;
use bloodraven_sim::server::Link;
use bloodraven_sim::{Kind, World, cast};
use bloodraven_types::record::RunResult;
use bloodraven_types::{Command, Fact, Group, Reason};

/// What the record asks for, in a process that has watched the run and has the first copy.
pub(crate) fn first_hand(world: &World) -> Order<Command> {
    let (about, command) = world.command().unwrap();
    Order {
        about,
        command,
        first_hand: true,
    }
}

/// What the record asks for, in a process that knows nothing of what an earlier one may have done.
pub(crate) fn after_a_crash(world: &World) -> Order<Command> {
    Order {
        first_hand: false,
        ..first_hand(world)
    }
}

/// Carries an order out in a new process.
pub(crate) fn perform(world: &World, order: Order<Command>) -> Result<Fact, Refused> {
    let hands = world.hands();
    world
        .run(cast::perform(world, &hands, order, &Superseded::default()))
        .unwrap()
}

/// Carries out what the record asks for, first hand.
pub(crate) fn carry_out(world: &World) -> Fact {
    perform(world, first_hand(world)).unwrap()
}

/// Takes a fact into the record.
pub(crate) fn take_in(world: &World, fact: Fact) -> Group {
    let run_id = world.group().run().unwrap().run_id;
    world.feed(Input::from_fact(run_id, fact))
}

/// Carries out whatever the record asks for until it asks for nothing more, and says how the run ended.
pub(crate) fn to_the_end(world: &World) -> RunResult {
    while world.command().is_some() {
        let fact = carry_out(world);
        take_in(world, fact);
    }
    world.group().run().unwrap().result.clone().unwrap()
}

/// The server of a site is silent from now on, for so long.
pub(crate) fn silence(world: &World, site: &'static str) {
    world.state().change(site, |server| server.link = Link::Silent);
}

/// Somebody else moves the record on, so that no order of before is wanted any more.
pub(crate) fn move_record_on(group: &mut Group) {
    let run = group.status.planned_failover.as_mut().unwrap();
    run.revision = run.revision.next();
}

/// The reason and the words of a fact that a step failed.
pub(crate) fn failure(fact: &Fact) -> (Reason, bool) {
    match fact {
        Fact::FenceFailed(failed) | Fact::DrainFailed(failed) | Fact::CatchUpFailed(failed) => {
            (failed.reason, failed.sent)
        }
        other => panic!("{other:?} is no failed step"),
    }
}

/// The statements of a site without the looks that a session begins with.
pub(crate) fn statements(world: &World, site: &str) -> Vec<Kind> {
    let mut kinds = world.journal().statements(site);
    kinds.retain(|kind| *kind != Kind::Executed);
    kinds
}

/// How long a future of the world takes.
pub(crate) fn timed<T>(world: &World, act: impl FnOnce() -> T) -> (T, Duration) {
    let began = world.time.now();
    let output = act();
    (output, world.time.now() - began)
}

/// Whether `found` is `expected` or a little more: waits end at the next look.
pub(crate) fn is_about(found: Duration, expected: u64) -> bool {
    let expected = Duration::from_secs(expected);
    found >= expected && found <= expected + Duration::from_secs(9)
}
