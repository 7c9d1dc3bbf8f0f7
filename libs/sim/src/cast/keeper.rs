//! The record keeper's process, as the status writer runs it: facts, changes, and a timer.

use std::sync::Arc;
use std::time::Duration;

use bloodraven_executor::desk;
use bloodraven_executor::keeper::{Keeper, Kept};
use bloodraven_failover::Input;
use bloodraven_types::{Group, Phase};
use futures::{FutureExt, select_biased};

use super::Role;
use crate::bus::{Body, Inbox, Message, SimBus};
use crate::clock::SimClock;
use crate::store::SimStore;
use crate::world::World;

const TICK: Duration = Duration::from_millis(500);
const REMINDER: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(500);

/// A keeper in a world.
pub type SimKeeper = Keeper<SimStore, SimBus, SimClock>;

impl World {
    /// A keeper that knows nothing yet.
    pub fn keeper(&self) -> SimKeeper {
        Keeper::new(self.store(), self.bus(), self.clock(), self.key(), Arc::new(|_, _| {}))
    }
}

/// Keeps the record for ever, one life after the other.
pub(super) async fn keep(mut role: Role, inbox: Inbox) {
    loop {
        let mut keeper = role.world.keeper();
        let mut next_tick = role.world.time.now() + TICK;
        loop {
            let message = select_biased! {
                message = inbox.next().fuse() => Some(message),
                () = role.world.time.sleep_until(next_tick).fuse() => None,
            };
            if message.is_none() {
                next_tick = role.world.time.now() + TICK;
            }
            let body = message.as_ref().map(|message| message.body.clone());
            let turn = role.mortal(turn(&mut keeper, message)).await;
            match (turn, body) {
                (Some(Kept::Done | Kept::Gone), _) | (Some(Kept::Later(_)), None) => {}
                (Some(Kept::Later(_)), Some(body)) => inbox.again(body, RETRY),
                (None, body) => {
                    body.into_iter().for_each(|body| inbox.again(body, RETRY));
                    break;
                }
            }
        }
        role.restart().await;
    }
}

async fn turn(keeper: &mut SimKeeper, message: Option<Message>) -> Kept {
    match message.map(|message| message.body) {
        Some(Body::Fact(about, fact)) => keeper.fact(&about, fact).await,
        Some(Body::Changed(group)) => {
            keeper.changed(&group);
            if keeper.known().is_none() {
                keeper.feed(Input::Tick).await
            } else {
                Kept::Done
            }
        }
        Some(Body::Command { .. } | Body::Record(_)) => Kept::Done,
        None => tick(keeper).await,
    }
}

async fn tick(keeper: &mut SimKeeper) -> Kept {
    if !keeper.known().is_none_or(desk::is_live) {
        return Kept::Done;
    }
    let kept = keeper.feed(Input::Tick).await;
    let waiting = keeper
        .known()
        .and_then(Group::run)
        .is_some_and(|run| run.phase != Phase::Deferred);
    if waiting && kept == Kept::Done {
        keeper.remind(REMINDER).await;
    }
    kept
}
