//! The drive loop: one group's messages one at a time and in the order of the inbox, groups in parallel.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;

use bloodraven_types::GroupKey;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, error, info_span};

use crate::inbox::{Delivery, Inbox, Outcome};

/// What a binary does with a message.
pub trait Handler: Send + Sync + 'static {
    /// Handles one message. It is called for one message of a group at a time, in parallel for several groups.
    ///
    /// After [`Outcome::Later`] the same message comes again after that time, and the group's further ones wait
    /// behind it. A handler must be able to take a message twice.
    fn handle(&self, delivery: &Delivery) -> impl Future<Output = Outcome> + Send;
}

/// How to drive.
#[derive(Clone, Debug)]
pub struct DriveOptions {
    /// Ends the drive: running handlers are waited for, messages not begun go back to the stream.
    pub cancel: CancellationToken,
    /// How many groups are handled at the same time.
    pub parallel_groups: usize,
}

/// Hands every message of the inbox to the handler until it is cancelled or the inbox ends.
pub async fn drive<H: Handler>(mut inbox: Inbox, handler: H, options: DriveOptions) {
    let mut groups = Groups::new(Arc::new(handler), options.cancel.clone());
    loop {
        groups.start_up_to(options.parallel_groups.max(1));
        tokio::select! {
            () = options.cancel.cancelled() => break,
            Some(ended) = groups.running.join_next_with_id() => groups.ended(ended),
            delivery = inbox.next() => match delivery {
                Some(delivery) => groups.queue(delivery),
                None => break,
            },
        }
    }
    groups.waiting.clear();
    while let Some(ended) = groups.running.join_next_with_id().await {
        groups.ended(ended);
    }
    inbox.close().await;
}

struct Groups<H> {
    handler: Arc<H>,
    cancel: CancellationToken,
    running: JoinSet<()>,
    busy: BTreeMap<Id, GroupKey>,
    waiting: BTreeMap<GroupKey, VecDeque<Delivery>>,
    /// Groups that have a message and no running handler, first come first served.
    ready: VecDeque<GroupKey>,
}

impl<H: Handler> Groups<H> {
    fn new(handler: Arc<H>, cancel: CancellationToken) -> Self {
        Self {
            handler,
            cancel,
            running: JoinSet::new(),
            busy: BTreeMap::new(),
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    fn queue(&mut self, delivery: Delivery) {
        let group = delivery.message().about.group.clone();
        if !self.waiting.contains_key(&group) && !self.busy.values().any(|busy| *busy == group) {
            self.ready.push_back(group.clone());
        }
        self.waiting.entry(group).or_default().push_back(delivery);
    }

    fn start_up_to(&mut self, parallel: usize) {
        while self.busy.len() < parallel {
            let Some(group) = self.ready.pop_front() else { return };
            let Some(delivery) = self.next_of(&group) else { continue };
            let span = info_span!("handle", %group, id = %delivery.message().id());
            let task = handle_one(Arc::clone(&self.handler), delivery, self.cancel.clone());
            let started = self.running.spawn(task.instrument(span));
            self.busy.insert(started.id(), group);
        }
    }

    fn next_of(&mut self, group: &GroupKey) -> Option<Delivery> {
        let queue = self.waiting.get_mut(group)?;
        let delivery = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(group);
        }
        delivery
    }

    fn ended(&mut self, ended: std::result::Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let Some(group) = self.busy.remove(&id) else { return };
        if let Err(error) = ended {
            error!(%group, %error, "a handler broke off; the stream delivers its message again");
        }
        if self.waiting.contains_key(&group) {
            self.ready.push_back(group);
        }
    }
}

async fn handle_one<H: Handler>(handler: Arc<H>, delivery: Delivery, cancel: CancellationToken) {
    loop {
        // A replica that lost its turn while the message waited leaves it to the one that has it now.
        if !delivery.is_ours() {
            return;
        }
        match handler.handle(&delivery).await {
            Outcome::Done => return delivery.done(),
            // Waiting here and not in the stream keeps the group's order.
            Outcome::Later(delay) => tokio::select! {
                () = sleep(delay) => {}
                () = cancel.cancelled() => return,
            },
        }
    }
}
