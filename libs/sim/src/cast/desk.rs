//! A binary that carries orders out: a desk, warm sessions, and procedures that can be ended anywhere.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_executor::desk::{Desk, Take, is_live};
use bloodraven_executor::hands::Refused;
use bloodraven_executor::{Order, Superseded, catch_up, drain, fence, grant, promote, publish, restore, unfence};
use bloodraven_ports::Bus;
use bloodraven_types::{Command, Fact, RunRef};
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, select_biased};

use super::Role;
use crate::bus::{Body, Inbox, Message};
use crate::world::{SimHands, World};

/// When an order that its process took with it comes again.
const REDELIVERY: Duration = Duration::from_millis(100);

type Procedure = LocalBoxFuture<'static, (u64, RunRef, &'static str, Option<()>)>;

/// One life of the process.
struct Life {
    hands: SimHands,
    desk: Desk,
    running: FuturesUnordered<Procedure>,
    /// Orders that are not acknowledged yet.
    open: BTreeMap<u64, Body>,
    next: u64,
}

/// Serves orders for ever, one life after the other.
pub(super) async fn serve(mut role: Role, inbox: Inbox) {
    loop {
        let mut life = Life {
            hands: role.world.hands(),
            desk: Desk::default(),
            running: FuturesUnordered::new(),
            open: BTreeMap::new(),
            next: 0,
        };
        life.live(&mut role, &inbox).await;
        for body in std::mem::take(&mut life.open).into_values() {
            inbox.again(body, REDELIVERY);
        }
        drop(life);
        role.restart().await;
    }
}

impl Life {
    /// Until the process is ended.
    async fn live(&mut self, role: &mut Role, inbox: &Inbox) {
        loop {
            let message = select_biased! {
                (number, about, name, outcome) = self.running.select_next_some() => {
                    if outcome.is_none() {
                        return;
                    }
                    self.open.remove(&number);
                    self.desk.finished(&about, name);
                    continue;
                }
                message = inbox.next().fuse() => message,
            };
            self.hear(role, message);
        }
    }

    fn hear(&mut self, role: &mut Role, message: Message) {
        match &message.body {
            Body::Record(group) => {
                if let Some(about) = RunRef::of(group) {
                    self.desk.record(&about, is_live(group));
                }
            }
            Body::Command {
                about,
                attempt,
                command,
            } => {
                let repeated = message.redelivered || *attempt > 1;
                let name = command.name();
                let Take::Start(order, superseded) = self.desk.order(about, command.clone(), repeated) else {
                    return;
                };
                self.next += 1;
                let number = self.next;
                let about = about.clone();
                let procedure = role.mortal(carry_out(role.world.clone(), self.hands.clone(), *order, superseded));
                self.open.insert(number, message.body);
                self.running.push(
                    procedure
                        .map(move |outcome| (number, about, name, outcome))
                        .boxed_local(),
                );
            }
            Body::Fact(..) | Body::Changed(_) => {}
        }
    }
}

async fn carry_out(world: World, hands: SimHands, order: Order<Command>, superseded: Superseded) {
    let about = order.about.clone();
    if let Ok(fact) = perform(&world, &hands, order, &superseded).await {
        // The bus of a world takes everything.
        let _ = world.bus().tell(&about, fact).await;
    }
}

/// Carries any command out, as the binary that it is for does.
///
/// # Errors
/// [`Refused`] when the record no longer asks for it, or when the world has no such binary.
pub async fn perform(
    world: &World,
    hands: &SimHands,
    order: Order<Command>,
    superseded: &Superseded,
) -> Result<Fact, Refused> {
    let bus = world.bus();
    let Order {
        about,
        command,
        first_hand,
    } = order;
    macro_rules! as_order {
        ($command:expr) => {
            Order {
                about,
                command: $command,
                first_hand,
            }
        };
    }
    match command {
        Command::ProbeGrant(command) => grant::probe_grant(hands, &bus, &as_order!(command), superseded).await,
        Command::Fence(command) => fence::fence(hands, &as_order!(command), superseded).await,
        Command::Drain(command) => drain::drain(hands, &as_order!(command), superseded).await,
        Command::AwaitCatchUp(command) => catch_up::await_catch_up(hands, &bus, &as_order!(command), superseded).await,
        Command::Promote(command) => promote::promote(hands, &as_order!(command), superseded).await,
        Command::RestoreTarget(command) => restore::restore_target(hands, &as_order!(command), superseded).await,
        Command::Unfence(command) => unfence::unfence(hands, &as_order!(command), superseded).await,
        Command::Publish(command) => {
            let order = as_order!(command);
            publish::publish(&hands.store, &world.publication(), &hands.clock, &order).await
        }
        // No cache in this world yet.
        Command::SyncCache(_) | Command::TakeOverCache(_) => Err(Refused::Superseded),
    }
}
