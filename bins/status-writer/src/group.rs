//! One group's keeper and its timer.

use std::sync::Arc;
use std::time::Duration;

use bloodraven_bus::{Delivery, NatsBus};
use bloodraven_executor::desk;
use bloodraven_executor::keeper::{Keeper, Kept};
use bloodraven_failover::Input;
use bloodraven_kubernetes::KubernetesStore;
use bloodraven_messages::latest::Payload;
use bloodraven_service::metrics::{MessageCounter, MessageResult};
use bloodraven_service::{Context, SystemClock, Tasks};
use bloodraven_types::{Group, GroupKey, Phase};
use bloodraven_worker::{BusOnlyConfig, Wires};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::report;

/// How often a live run's deadlines are looked at.
const TICK: Duration = Duration::from_millis(500);
/// How long commands may go unanswered before they are given again.
const REMINDER: Duration = Duration::from_secs(2);
/// When a fact that could not be taken in comes again.
const RETRY: Duration = Duration::from_millis(500);

/// One thing for a group's keeper.
pub(crate) enum Mail {
    Fact(Box<Delivery>),
    Changed(Box<Group>),
    Deleted,
    Unreadable(String),
}

/// What a group's task needs.
#[derive(Clone)]
pub(crate) struct GroupTask {
    pub(crate) tasks: Tasks,
    store: KubernetesStore,
    bus: NatsBus<SystemClock>,
    clock: SystemClock,
    messages: MessageCounter,
    cancel: CancellationToken,
}

type GroupKeeper = Keeper<KubernetesStore, NatsBus<SystemClock>, SystemClock>;

impl GroupTask {
    pub(crate) fn of(context: &Context<BusOnlyConfig>, wires: &Wires) -> Self {
        Self {
            tasks: context.tasks.clone(),
            store: wires.store.clone(),
            bus: wires.bus.clone(),
            clock: wires.clock,
            messages: context.messages.clone(),
            cancel: context.cancel.clone(),
        }
    }

    /// Keeps the group's record until the group is gone or the process stops.
    pub(crate) async fn run(self, key: GroupKey, mut mails: mpsc::Receiver<Mail>) {
        let listener = Arc::new(report::report);
        let mut keeper = Keeper::new(self.store.clone(), self.bus.clone(), self.clock, key.clone(), listener);
        let mut timer = tokio::time::interval(TICK);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let gone = tokio::select! {
                biased;
                () = self.cancel.cancelled() => break,
                mail = mails.recv() => match mail {
                    Some(mail) => self.mail(&mut keeper, &key, mail).await,
                    None => break,
                },
                _ = timer.tick() => self.tick(&mut keeper).await,
            };
            if gone {
                tracing::info!(group = %key, "the group is gone; its record is no longer kept");
                break;
            }
        }
    }

    /// Whether the group is gone.
    async fn mail(&self, keeper: &mut GroupKeeper, key: &GroupKey, mail: Mail) -> bool {
        match mail {
            Mail::Fact(delivery) => return self.fact(keeper, *delivery).await,
            Mail::Changed(group) => {
                keeper.changed(&group);
                if keeper.known().is_none() {
                    return keeper.feed(Input::Tick).await == Kept::Gone;
                }
            }
            // A deletion may be the watch's view of a group that was made again: the read decides.
            Mail::Deleted => return keeper.fresh(Input::Tick).await == Kept::Gone,
            Mail::Unreadable(problem) => {
                tracing::warn!(group = %key, problem, "a group cannot be read; its run waits");
            }
        }
        false
    }

    async fn fact(&self, keeper: &mut GroupKeeper, delivery: Delivery) -> bool {
        let message = delivery.message();
        let Payload::Fact(fact) = message.payload.clone() else {
            delivery.done();
            return false;
        };
        let name = fact.name();
        tracing::info!(group = %message.about.group, run = %message.about.run_id, revision = %message.about.revision, fact = name, "a fact is told");
        match keeper.fact(&message.about.clone(), fact).await {
            Kept::Done => {
                self.messages.count(name, MessageResult::Handled);
                delivery.done();
                false
            }
            Kept::Later(detail) => {
                tracing::warn!(fact = name, detail, "a fact could not be taken in; it comes again");
                self.messages.count(name, MessageResult::Failed);
                delivery.later(RETRY);
                false
            }
            Kept::Gone => {
                delivery.done();
                true
            }
        }
    }

    /// Deadlines and reminders of a live run. A group at rest costs nothing here.
    async fn tick(&self, keeper: &mut GroupKeeper) -> bool {
        let live = keeper.known().is_none_or(desk::is_live);
        if !live {
            return false;
        }
        if keeper.feed(Input::Tick).await == Kept::Gone {
            return true;
        }
        let waiting = keeper
            .known()
            .and_then(Group::run)
            .is_some_and(|run| run.phase != Phase::Deferred);
        if waiting {
            keeper.remind(REMINDER).await;
        }
        false
    }
}
