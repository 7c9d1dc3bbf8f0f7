//! Hearing facts and changes, and handing each to its group's keeper: one group's things one at a time, groups in parallel.

use std::collections::HashMap;
use std::time::Duration;

use bloodraven_bus::{Exclusive, Inbox, InboxOptions};
use bloodraven_kubernetes::{GroupEvent, watch_groups};
use bloodraven_messages::latest::SubjectFilter;
use bloodraven_service::{BoxError, Context};
use bloodraven_types::GroupKey;
use bloodraven_worker::{BusOnlyConfig, Wires};
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::group::{GroupTask, Mail};

/// How many things of one group can wait; more are left to the stream, which brings them again.
const MAILBOX: usize = 256;
/// The loop is alive while it goes round at least this often or waits.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Begins to keep records.
pub(crate) async fn spawn(context: &Context<BusOnlyConfig>, wires: &Wires) -> Result<(), BoxError> {
    let options = InboxOptions {
        durable: context.binary.to_owned(),
        filters: vec![SubjectFilter::FACTS],
        record_feed: false,
        exclusive: Exclusive::Sole,
    };
    let mut inbox = Inbox::open(&wires.connection, options).await?;
    let ready = context.health.check("groups");
    let heartbeat = context.health.heartbeat("facts", HEARTBEAT);
    let cancel = context.cancel.clone();
    let mut events = Box::pin(watch_groups(wires.client.clone(), wires.namespace.as_deref()));
    let mut groups = Groups {
        context: GroupTask::of(context, wires),
        mailboxes: HashMap::new(),
    };
    context.tasks.spawn_loop("facts", async move {
        loop {
            let turn = heartbeat.idle(async {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => None,
                    delivery = inbox.next() => delivery.map(|delivery| {
                        (delivery.message().about.group.clone(), Mail::Fact(Box::new(delivery)))
                    }),
                    event = events.next() => event.map(|event| match event {
                        GroupEvent::Applied(group) => (group.key.clone(), Mail::Changed(group)),
                        GroupEvent::Deleted { key, .. } => (key, Mail::Deleted),
                        GroupEvent::Unreadable { key, problem } => (key, Mail::Unreadable(problem)),
                    }),
                }
            });
            let Some((key, mail)) = turn.await else { break };
            if matches!(mail, Mail::Changed(_)) {
                ready.ready();
            }
            groups.post(key, mail);
        }
        groups.mailboxes.clear();
        inbox.close().await;
        Ok::<(), BoxError>(())
    });
    Ok(())
}

struct Groups {
    context: GroupTask,
    mailboxes: HashMap<GroupKey, mpsc::Sender<Mail>>,
}

impl Groups {
    fn post(&mut self, key: GroupKey, mail: Mail) {
        let mail = match self.mailboxes.get(&key) {
            Some(mailbox) => match mailbox.try_send(mail) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    tracing::warn!(group = %key, "a group's mailbox is full; the message comes again");
                    return;
                }
                Err(mpsc::error::TrySendError::Closed(mail)) => mail,
            },
            None => mail,
        };
        if matches!(mail, Mail::Deleted | Mail::Unreadable(_)) && !self.mailboxes.contains_key(&key) {
            return;
        }
        let (mailbox, mails) = mpsc::channel(MAILBOX);
        let task = self.context.clone();
        self.context
            .tasks
            .spawn(format!("group {key}"), task.run(key.clone(), mails));
        if mailbox.try_send(mail).is_ok() {
            self.mailboxes.insert(key, mailbox);
        }
    }
}
