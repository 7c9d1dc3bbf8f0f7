//! What the publisher does with its orders.

use bloodraven_executor::hands::Refused;
use bloodraven_executor::{Order, Superseded, publish};
use bloodraven_kubernetes::{KubernetesPublication, KubernetesStore};
use bloodraven_service::SystemClock;
use bloodraven_types::{Command, Fact, GroupKey};
use bloodraven_worker::{Wires, Work};

/// What the publisher does with its orders.
pub(crate) struct Publisher {
    store: KubernetesStore,
    publication: KubernetesPublication,
    clock: SystemClock,
}

impl Publisher {
    pub(crate) fn new(wires: &Wires, publication: KubernetesPublication) -> Self {
        Self {
            store: wires.store.clone(),
            publication,
            clock: wires.clock,
        }
    }
}

impl Work for Publisher {
    const COMMANDS: &'static [&'static str] = &["publish"];

    async fn carry_out(&self, order: Order<Command>, _: Superseded) -> Result<Fact, Refused> {
        let Order {
            about,
            command,
            first_hand,
        } = order;
        match command {
            Command::Publish(command) => {
                let order = Order {
                    about,
                    command,
                    first_hand,
                };
                publish::publish(&self.store, &self.publication, &self.clock, &order).await
            }
            // The inbox is filtered by name, so none of these arrives; if one does, it is not ours to act on.
            Command::ProbeGrant(_)
            | Command::Fence(_)
            | Command::Drain(_)
            | Command::AwaitCatchUp(_)
            | Command::SyncCache(_)
            | Command::TakeOverCache(_)
            | Command::Promote(_)
            | Command::RestoreTarget(_)
            | Command::Unfence(_) => Err(Refused::Superseded),
        }
    }

    /// Labels and DNS need no session: the client's connections are kept warm by the watch.
    async fn warm(&self, _: &GroupKey) {}
}
