//! What the fencer does with its orders.

use bloodraven_executor::hands::Refused;
use bloodraven_executor::{Order, Superseded, drain, fence, unfence};
use bloodraven_ports::GroupStore;
use bloodraven_types::{Command, Fact, GroupKey};
use bloodraven_worker::{DatabaseHands, Wires, Work};

/// What the fencer does with its orders.
pub(crate) struct Fencer {
    hands: DatabaseHands,
}

impl Fencer {
    pub(crate) fn new(hands: DatabaseHands, _: &Wires) -> Self {
        Self { hands }
    }
}

impl Work for Fencer {
    const COMMANDS: &'static [&'static str] = &["fence", "drain", "unfence"];

    async fn carry_out(&self, order: Order<Command>, superseded: Superseded) -> Result<Fact, Refused> {
        let Order {
            about,
            command,
            first_hand,
        } = order;
        match command {
            Command::Fence(command) => {
                let order = Order {
                    about,
                    command,
                    first_hand,
                };
                fence::fence(&self.hands, &order, &superseded).await
            }
            Command::Drain(command) => {
                let order = Order {
                    about,
                    command,
                    first_hand,
                };
                drain::drain(&self.hands, &order, &superseded).await
            }
            Command::Unfence(command) => {
                let order = Order {
                    about,
                    command,
                    first_hand,
                };
                unfence::unfence(&self.hands, &order, &superseded).await
            }
            // The inbox is filtered by name, so none of these arrives; if one does, it is not ours to act on.
            Command::ProbeGrant(_)
            | Command::AwaitCatchUp(_)
            | Command::SyncCache(_)
            | Command::TakeOverCache(_)
            | Command::Promote(_)
            | Command::RestoreTarget(_)
            | Command::Publish(_) => Err(Refused::Superseded),
        }
    }

    async fn warm(&self, group: &GroupKey) {
        if let Ok(group) = self.hands.store.get(group).await {
            self.hands.sessions.warm(&group).await;
        }
    }
}
