//! What the promoter does with its orders.

use bloodraven_executor::hands::Refused;
use bloodraven_executor::{Order, Superseded, promote, restore};
use bloodraven_ports::GroupStore;
use bloodraven_types::{Command, Fact, GroupKey};
use bloodraven_worker::{DatabaseHands, Wires, Work};

/// What the promoter does with its orders.
pub(crate) struct Promoter {
    hands: DatabaseHands,
}

impl Promoter {
    pub(crate) fn new(hands: DatabaseHands, _: &Wires) -> Self {
        Self { hands }
    }
}

impl Work for Promoter {
    const COMMANDS: &'static [&'static str] = &["promote", "restore-target"];

    async fn carry_out(&self, order: Order<Command>, superseded: Superseded) -> Result<Fact, Refused> {
        let Order {
            about,
            command,
            first_hand,
        } = order;
        match command {
            Command::Promote(command) => {
                let order = Order {
                    about,
                    command,
                    first_hand,
                };
                promote::promote(&self.hands, &order, &superseded).await
            }
            Command::RestoreTarget(command) => {
                let order = Order {
                    about,
                    command,
                    first_hand,
                };
                restore::restore_target(&self.hands, &order, &superseded).await
            }
            // The inbox is filtered by name, so none of these arrives; if one does, it is not ours to act on.
            Command::ProbeGrant(_)
            | Command::Fence(_)
            | Command::Drain(_)
            | Command::AwaitCatchUp(_)
            | Command::SyncCache(_)
            | Command::TakeOverCache(_)
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
