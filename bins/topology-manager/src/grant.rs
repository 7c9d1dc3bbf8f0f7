//! The claim's probes, on order.

use bloodraven_bus::NatsBus;
use bloodraven_executor::hands::Refused;
use bloodraven_executor::{Order, Superseded, grant};
use bloodraven_ports::GroupStore;
use bloodraven_service::SystemClock;
use bloodraven_types::{Command, Fact, GroupKey};
use bloodraven_worker::{DatabaseHands, Wires, Work};

/// Carries out the claim's probes.
pub(crate) struct Prober {
    hands: DatabaseHands,
    bus: NatsBus<SystemClock>,
}

impl Prober {
    pub(crate) fn new(hands: DatabaseHands, wires: &Wires) -> Self {
        Self {
            hands,
            bus: wires.bus.clone(),
        }
    }
}

impl Work for Prober {
    const COMMANDS: &'static [&'static str] = &["probe-grant"];

    async fn carry_out(&self, order: Order<Command>, superseded: Superseded) -> Result<Fact, Refused> {
        let Order {
            about,
            command,
            first_hand,
        } = order;
        match command {
            Command::ProbeGrant(command) => {
                let order = Order {
                    about,
                    command,
                    first_hand,
                };
                grant::probe_grant(&self.hands, &self.bus, &order, &superseded).await
            }
            // The inbox is filtered by name, so none of these arrives; if one does, it is not ours to act on.
            Command::Fence(_)
            | Command::Drain(_)
            | Command::AwaitCatchUp(_)
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
