//! Serving orders: each group has a desk, the newest order on it is carried out, and what comes of it is told.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bloodraven_bus::{Delivery, Exclusive, Inbox, InboxOptions};
use bloodraven_executor::desk::{Desk, Take};
use bloodraven_executor::hands::Refused;
use bloodraven_executor::{Order, Superseded};
use bloodraven_messages::latest::{Message, Payload, SubjectFilter};
use bloodraven_ports::Bus;
use bloodraven_service::config::Config;
use bloodraven_service::metrics::MessageResult;
use bloodraven_service::{BoxError, Context};
use bloodraven_types::{Command, Fact, GroupKey, RunRef};
use tokio::sync::mpsc;

use crate::wires::Wires;

/// How many messages of one group can wait; a run has fewer in all.
const MAILBOX: usize = 256;
/// A desk that has heard nothing for this long is put away; the next message makes a new one.
const IDLE: Duration = Duration::from_secs(600);
/// The loop is alive while it goes round at least this often or waits for messages.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// What a binary does with its orders.
pub trait Work: Send + Sync + 'static {
    /// The commands that this binary carries out.
    const COMMANDS: &'static [&'static str];

    /// Carries an order out. It stops at its next look once it is superseded.
    fn carry_out(
        &self,
        order: Order<Command>,
        superseded: Superseded,
    ) -> impl Future<Output = Result<Fact, Refused>> + Send;

    /// A run is live: open what its orders will need, so that no handshake is on the write-outage path.
    fn warm(&self, group: &GroupKey) -> impl Future<Output = ()> + Send;
}

enum Mail {
    Order(Box<Delivery>),
    Record(Box<Message>),
}

/// Serves the orders named by [`Work::COMMANDS`] until the process stops.
///
/// # Errors
/// When the bus takes no subscription.
pub async fn serve<C: Config, W: Work>(context: &Context<C>, wires: &Wires, work: W) -> Result<(), BoxError> {
    let filters = W::COMMANDS.iter().copied().map(SubjectFilter::command).collect();
    let options = InboxOptions {
        durable: context.binary.to_owned(),
        filters,
        record_feed: true,
        exclusive: Exclusive::Sole,
    };
    let inbox = Inbox::open(&wires.connection, options).await?;
    let heartbeat = context.health.heartbeat("orders", HEARTBEAT);
    let desks = Desks {
        context: Served::of(context, wires, work),
        mailboxes: HashMap::new(),
    };
    let cancel = context.cancel.clone();
    context.tasks.spawn_loop("orders", async move {
        let mut desks = desks;
        let mut inbox = inbox;
        let records = inbox.records();
        loop {
            let mail = heartbeat.idle(async {
                tokio::select! {
                    () = cancel.cancelled() => None,
                    delivery = inbox.next() => delivery.map(|delivery| Mail::Order(Box::new(delivery))),
                    record = records.next() => Some(Mail::Record(Box::new(record))),
                }
            });
            match mail.await {
                Some(mail) => desks.post(mail),
                None => break,
            }
        }
        desks.mailboxes.clear();
        inbox.close().await;
        Ok::<(), BoxError>(())
    });
    Ok(())
}

struct Served<W> {
    work: Arc<W>,
    bus: bloodraven_bus::NatsBus<bloodraven_service::SystemClock>,
    tasks: bloodraven_service::Tasks,
    messages: bloodraven_service::metrics::MessageCounter,
    cancel: tokio_util::sync::CancellationToken,
}

impl<W> Clone for Served<W> {
    fn clone(&self) -> Self {
        Self {
            work: Arc::clone(&self.work),
            bus: self.bus.clone(),
            tasks: self.tasks.clone(),
            messages: self.messages.clone(),
            cancel: self.cancel.clone(),
        }
    }
}

impl<W: Work> Served<W> {
    fn of<C: Config>(context: &Context<C>, wires: &Wires, work: W) -> Self {
        Self {
            work: Arc::new(work),
            bus: wires.bus.clone(),
            tasks: context.tasks.clone(),
            messages: context.messages.clone(),
            cancel: context.cancel.clone(),
        }
    }
}

struct Desks<W> {
    context: Served<W>,
    mailboxes: HashMap<GroupKey, mpsc::Sender<Mail>>,
}

impl<W: Work> Desks<W> {
    fn post(&mut self, mail: Mail) {
        let group = match &mail {
            Mail::Order(delivery) => delivery.message().about.group.clone(),
            Mail::Record(record) => record.about.group.clone(),
        };
        let mail = match self.mailboxes.get(&group) {
            Some(mailbox) => match mailbox.try_send(mail) {
                Ok(()) => return,
                // A full mailbox leaves the message to the stream; a closed one belongs to a desk that was put away.
                Err(mpsc::error::TrySendError::Full(_)) => return,
                Err(mpsc::error::TrySendError::Closed(mail)) => mail,
            },
            None => mail,
        };
        let (mailbox, mails) = mpsc::channel(MAILBOX);
        let served = self.context.clone();
        served
            .tasks
            .clone()
            .spawn(format!("desk {group}"), desk_loop(served, mails));
        if mailbox.try_send(mail).is_ok() {
            self.mailboxes.insert(group, mailbox);
        }
    }
}

/// One group's desk. Orders are carried out in tasks of their own, so that a newer one is heard while an older one runs.
async fn desk_loop<W: Work>(served: Served<W>, mut mails: mpsc::Receiver<Mail>) {
    let mut desk = Desk::default();
    let (finished, mut endings) = mpsc::channel::<(RunRef, &'static str)>(MAILBOX);
    let mut running = 0_usize;
    loop {
        let mail = tokio::select! {
            () = served.cancel.cancelled() => break,
            Some((about, name)) = endings.recv() => {
                running = running.saturating_sub(1);
                desk.finished(&about, name);
                continue;
            }
            mail = tokio::time::timeout(IDLE, mails.recv()) => match mail {
                Ok(Some(mail)) => mail,
                Ok(None) => break,
                Err(_) if running == 0 => break,
                Err(_) => continue,
            },
        };
        match mail {
            Mail::Record(record) => on_record(&served, &mut desk, &record).await,
            Mail::Order(delivery) => {
                if on_order(&served, &mut desk, *delivery, finished.clone()) {
                    running += 1;
                }
            }
        }
    }
    desk.stop();
}

async fn on_record<W: Work>(served: &Served<W>, desk: &mut Desk, record: &Message) {
    let Payload::Record(payload) = &record.payload else {
        return;
    };
    let live = !payload.planned_failover.phase.is_terminal();
    desk.record(&record.about, live);
    let before_the_fence = !payload.planned_failover.phase.needs_claim();
    if live && before_the_fence && payload.planned_failover.result.is_none() {
        served.work.warm(&record.about.group).await;
    }
}

/// Whether a procedure was started.
fn on_order<W: Work>(
    served: &Served<W>,
    desk: &mut Desk,
    delivery: Delivery,
    finished: mpsc::Sender<(RunRef, &'static str)>,
) -> bool {
    let message = delivery.message();
    let Payload::Command(command) = &message.payload else {
        delivery.done();
        return false;
    };
    let name = command.name();
    let about = message.about.clone();
    let repeated = !delivery.is_first_copy() || message.attempt > 1;
    match desk.order(&about, command.clone(), repeated) {
        Take::Copy => {
            served.messages.count(name, MessageResult::Duplicate);
            delivery.done();
            false
        }
        Take::Stale => {
            tracing::debug!(run = %about.run_id, revision = %about.revision, command = name, "a stale command is refused");
            served.messages.count(name, MessageResult::Refused);
            delivery.done();
            false
        }
        Take::Start(order, superseded) => {
            let served = served.clone();
            let tasks = served.tasks.clone();
            tasks.spawn(format!("{name} {}", about.group), async move {
                carry_out(&served, *order, superseded, name).await;
                delivery.done();
                let _ = finished.send((about, name)).await;
            });
            true
        }
    }
}

async fn carry_out<W: Work>(served: &Served<W>, order: Order<Command>, superseded: Superseded, name: &'static str) {
    let about = order.about.clone();
    tracing::info!(group = %about.group, run = %about.run_id, revision = %about.revision, command = name, firstHand = order.first_hand, "carrying out a command");
    match served.work.carry_out(order, superseded).await {
        Ok(fact) => {
            served.messages.count(name, MessageResult::Handled);
            tracing::info!(group = %about.group, run = %about.run_id, revision = %about.revision, command = name, fact = fact.name(), "a command is carried out");
            if let Err(error) = served.bus.tell(&about, fact).await {
                tracing::warn!(run = %about.run_id, %error, "a fact was not told; the command comes again");
            }
        }
        Err(refused) => {
            served.messages.count(name, MessageResult::Refused);
            tracing::info!(group = %about.group, run = %about.run_id, revision = %about.revision, command = name, %refused, "a command is refused");
        }
    }
}
