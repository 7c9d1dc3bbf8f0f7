//! What the lag-watcher does with its orders.

use bloodraven_bus::NatsBus;
use bloodraven_executor::hands::Refused;
use bloodraven_executor::{Order, Superseded, catch_up};
use bloodraven_ports::GroupStore;
use bloodraven_service::SystemClock;
use bloodraven_types::{Command, Fact, GroupKey};
use bloodraven_worker::{DatabaseHands, Wires, Work};

/// What the lag-watcher does with its orders.
pub(crate) struct LagWatcher {
    hands: DatabaseHands,
    bus: NatsBus<SystemClock>,
}

impl LagWatcher {
    pub(crate) fn new(hands: DatabaseHands, wires: &Wires) -> Self {
        Self {
            hands,
            bus: wires.bus.clone(),
        }
    }
}

impl Work for LagWatcher {
    const COMMANDS: &'static [&'static str] = &["await-catch-up"];

    async fn carry_out(&self, order: Order<Command>, superseded: Superseded) -> Result<Fact, Refused> {
        let Order {
            about,
            command,
            first_hand,
        } = order;
        match command {
            Command::AwaitCatchUp(command) => {
                let order = Order {
                    about,
                    command,
                    first_hand,
                };
                catch_up::await_catch_up(&self.hands, &self.bus, &order, &superseded).await
            }
            // The inbox is filtered by name, so none of these arrives; if one does, it is not ours to act on.
            Command::ProbeGrant(_)
            | Command::Fence(_)
            | Command::Drain(_)
            | Command::SyncCache(_)
            | Command::TakeOverCache(_)
            | Command::Promote(_)
            | Command::RestoreTarget(_)
            | Command::Unfence(_)
            | Command::Publish(_) => Err(Refused::Superseded),
        }
    }

    async fn warm(&self, group: &GroupKey) {
        if let Ok(group) = self.hands.store.get(group).await {
            self.hands.sessions.warm(&group).await;
        }
    }
}
