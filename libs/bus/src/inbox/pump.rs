//! The task behind an inbox: hears both ways in, keeps the ledger, acknowledges.

use std::pin::Pin;
use std::time::Duration;

use async_nats::header::NATS_PIN_ID;
use async_nats::jetstream::{AckKind, Message as Stored};
use async_nats::{Client, Subject, Subscriber};
use bloodraven_messages::latest::{Kind, Message, MessageId, decode};
use futures::StreamExt as _;
use futures::stream::SelectAll;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::consumer::{Census, PRIORITY_GROUP, PROGRESS, census, ensure_consumer};
use super::ledger::{Ledger, Verdict};
use super::pull::{Heard, Pull};
use super::turn::{StreamCopy, Turn};
use super::{Delivery, InboxOptions, MOST_IN_FLIGHT};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::records::RecordFeed;
use crate::repeat::is_repetition;
use crate::stream::STREAM;

/// The pause after a message was dropped without an outcome: its handler broke off.
const AFTER_BREAKING_OFF: Duration = Duration::from_secs(1);
/// How often a replica that takes over looks whether its predecessor's messages are all here.
const SETTLING_CHECK: Duration = Duration::from_millis(200);
/// The first pause before stream and consumer are looked after again, when that failed; then doubled.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long the last words of a closing inbox may take.
const CLOSING: Duration = Duration::from_secs(1);

/// What a handler says about a message.
#[derive(Debug)]
pub(crate) enum Control {
    /// It needs nothing more.
    Done(MessageId),
    /// It is to come again.
    Later(MessageId, Duration),
    /// It was dropped.
    Abandoned(MessageId),
}

type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The task behind an inbox.
pub(super) struct Pump {
    connection: Connection,
    options: InboxOptions,
    subjects: SelectAll<Subscriber>,
    answers: Subscriber,
    deliver: mpsc::Sender<Delivery>,
    control: mpsc::UnboundedSender<Control>,
    controls: mpsc::UnboundedReceiver<Control>,
    records: RecordFeed,
    stop: CancellationToken,
    ledger: Ledger,
    turn: Turn,
    pull: Pull,
    progress: Interval,
    settling_check: Interval,
    ensuring: Option<Task<Result<()>>>,
    ensure_pause: Duration,
    had_consumer: bool,
    counting: Option<Task<Result<Census>>>,
}

impl Pump {
    pub(super) async fn new(
        connection: Connection,
        options: InboxOptions,
        subjects: SelectAll<Subscriber>,
        deliver: mpsc::Sender<Delivery>,
        records: RecordFeed,
        stop: CancellationToken,
    ) -> Result<Self> {
        let inbox = connection.client.new_inbox();
        let subject = format!("{inbox}.*");
        let answers = connection.client.subscribe(subject.clone()).await;
        let answers = answers.map_err(|error| Error::Subscribe {
            subject,
            source: Box::new(error),
        })?;
        // Handlers answer at most once for each message in flight, so the number of messages bounds the channel.
        let (control, controls) = mpsc::unbounded_channel();
        let every = |period| {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let mut pump = Self {
            turn: Turn::new(options.exclusive),
            pull: Pull::new(inbox),
            ledger: Ledger::default(),
            progress: every(PROGRESS),
            settling_check: every(SETTLING_CHECK),
            ensuring: None,
            ensure_pause: FIRST_PAUSE,
            had_consumer: false,
            counting: None,
            connection,
            options,
            subjects,
            answers,
            deliver,
            control,
            controls,
            records,
            stop,
        };
        pump.ensure(Duration::ZERO);
        Ok(pump)
    }

    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        let mut disruptions = self.connection.disruptions.clone();
        while !stop.is_cancelled() {
            let wakes_at = self.pull.wakes_at();
            tokio::select! {
                () = stop.cancelled() => {}
                Some(control) = self.controls.recv() => self.take(control).await,
                Some(message) = self.subjects.next() => self.hear_subject(&message),
                Some(message) = self.answers.next() => self.hear_stream(message).await,
                ensured = pending_or(&mut self.ensuring) => self.ensured(ensured),
                counted = pending_or(&mut self.counting) => self.counted(counted).await,
                _ = self.progress.tick() => self.show_life().await,
                _ = self.settling_check.tick(), if self.turn.is_settling() => self.count(),
                () = sleep_until(wakes_at.unwrap_or_else(Instant::now)), if wakes_at.is_some() => self.wake().await,
                Ok(()) = disruptions.changed() => {
                    self.turn.disrupted();
                    self.pull.reconnected(Instant::now());
                }
            }
        }
        self.close().await;
    }

    /// Makes stream and consumer, after a pause.
    fn ensure(&mut self, pause: Duration) {
        self.pull.stop();
        let ensured = ensure_consumer(self.connection.clone(), self.options.clone(), self.had_consumer);
        self.ensuring = Some(Box::pin(async move {
            tokio::time::sleep(pause).await;
            ensured.await
        }));
    }

    fn ensured(&mut self, ensured: Result<()>) {
        match ensured {
            Ok(()) => {
                self.had_consumer = true;
                self.ensure_pause = FIRST_PAUSE;
                self.pull.start(Instant::now());
            }
            Err(error) => {
                let source = std::error::Error::source(&error)
                    .map(ToString::to_string)
                    .unwrap_or_default();
                warn!(%error, source, "messages that are missed now come when the stream is back");
                self.ensure(self.ensure_pause);
                self.ensure_pause = self.ensure_pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
        }
    }

    async fn wake(&mut self) {
        let now = Instant::now();
        if self.pull.wake(now) == Heard::Gone {
            self.ensure(Duration::ZERO);
            return;
        }
        let request = self
            .pull
            .request(&self.options.durable, self.options.exclusive, self.turn.pin(), now);
        if let Some(request) = request {
            let client = &self.connection.client;
            let sent = client
                .publish_with_reply(request.subject, request.reply, request.payload.into())
                .await;
            if let Err(error) = sent {
                debug!(%error, "could not ask for messages; it is tried again");
            }
        }
    }

    /// A message on its subject.
    fn hear_subject(&mut self, message: &async_nats::Message) {
        let first_copy = !is_repetition(message.headers.as_ref());
        let message = match decode(Some(&message.subject), &message.payload) {
            Ok(message) => message,
            // The stream's copy, which comes once, is where this is reported.
            Err(error) => return debug!(%error, subject = %message.subject, "ignored what is no message"),
        };
        if self.options.record_feed && message.payload.kind() == Kind::Record {
            self.records.put(message.clone());
        }
        if !self.wants(&message) {
            return;
        }
        let (id, now) = (message.id(), Instant::now());
        if !self.turn.may_act_at_once(&id, now) {
            return;
        }
        if self.ledger.in_flight() >= MOST_IN_FLIGHT {
            // The stream brings it once there is room; what comes after it must not overtake it.
            return self.turn.disrupted();
        }
        if self.ledger.copy(&id, None, now) == Verdict::Deliver {
            self.deliver(message, false, first_copy);
        }
    }

    fn wants(&self, message: &Message) -> bool {
        let (kind, name) = (message.payload.kind(), message.payload.name());
        self.options
            .filters
            .iter()
            .any(|filter| filter.kind == kind && filter.name.is_none_or(|wanted| wanted == name))
    }

    /// An answer to a request: a message of the stream, or a status.
    async fn hear_stream(&mut self, message: async_nats::Message) {
        let now = Instant::now();
        if let Some(status) = message.status {
            let heard = self.pull.status(status, &message, now);
            return self.note(heard).await;
        }
        let asked = self.pull.open_since();
        let heard = self.pull.message(now);
        self.note(heard).await;
        let Some((copy, pin)) = self.read(message).await else {
            return;
        };
        let copies = match self.turn.admit(copy, pin.as_deref(), asked, now) {
            Ok(copies) => copies,
            Err(reply) => return answer(&self.connection.client, reply, AckKind::Nak(None)).await,
        };
        if self.turn.is_settling() {
            self.count();
        }
        self.handle(copies).await;
    }

    async fn note(&mut self, heard: Heard) {
        match heard {
            Heard::Nothing => {}
            Heard::Accepted(sent) => self.turn.confirm(sent),
            Heard::TurnLost => self.lose_turn().await,
            Heard::Deleted => {
                self.lose_turn().await;
                self.ensure(Duration::ZERO);
            }
            Heard::Gone => self.ensure(Duration::ZERO),
        }
    }

    async fn lose_turn(&mut self) {
        if self.turn.pin().is_some() {
            info!(consumer = %self.options.durable, "lost the turn");
        }
        for reply in self.turn.lose() {
            answer(&self.connection.client, reply, AckKind::Nak(None)).await;
        }
    }

    async fn read(&mut self, message: async_nats::Message) -> Option<(StreamCopy, Option<String>)> {
        let stored = Stored {
            message,
            context: self.connection.jetstream.clone(),
        };
        let reply = stored.message.reply.clone()?;
        let info = match stored.info() {
            Ok(info) => info,
            Err(error) => {
                warn!(%error, "the stream's message says not where it is from");
                return None;
            }
        };
        match decode(Some(&stored.message.subject), &stored.message.payload) {
            Ok(message) => {
                let headers = stored.message.headers.as_ref();
                let pin = headers
                    .and_then(|headers| headers.get_last(NATS_PIN_ID))
                    .map(|pin| pin.as_str().to_owned());
                let (sequence, pending) = (info.stream_sequence, info.pending);
                let redelivered = info.delivered > 1;
                Some((
                    StreamCopy {
                        message,
                        redelivered,
                        sequence,
                        pending,
                        reply,
                    },
                    pin,
                ))
            }
            Err(error) => {
                warn!(%error, subject = %stored.message.subject, "dropped what is no message of ours");
                answer(&self.connection.client, reply, AckKind::Term).await;
                None
            }
        }
    }

    async fn handle(&mut self, copies: Vec<StreamCopy>) {
        for copy in copies {
            let id = copy.message.id();
            match self.ledger.copy(&id, Some(copy.reply.clone()), Instant::now()) {
                Verdict::Deliver => self.deliver(copy.message, copy.redelivered, false),
                Verdict::InFlight => {}
                Verdict::Handled => answer(&self.connection.client, copy.reply, AckKind::Ack).await,
                Verdict::PutOff(rest) => answer(&self.connection.client, copy.reply, AckKind::Nak(Some(rest))).await,
            }
        }
    }

    fn deliver(&self, message: Message, redelivered: bool, first_copy: bool) {
        let id = Some(message.id());
        let delivery = Delivery {
            message,
            redelivered,
            first_copy,
            turn: self.turn.view(),
            control: self.control.clone(),
            id,
        };
        if self.deliver.try_send(delivery).is_err() {
            // Dropping it has given it back.
            debug!("the handlers have no room for a message; it comes again");
        }
    }

    async fn take(&mut self, control: Control) {
        let now = Instant::now();
        let (replies, kind) = match control {
            Control::Done(id) => (self.ledger.done(&id), AckKind::Ack),
            Control::Later(id, delay) => (self.ledger.later(&id, delay, now), AckKind::Nak(Some(delay))),
            Control::Abandoned(id) => (
                self.ledger.later(&id, AFTER_BREAKING_OFF, now),
                AckKind::Nak(Some(AFTER_BREAKING_OFF)),
            ),
        };
        for reply in replies {
            answer(&self.connection.client, reply, kind).await;
        }
    }

    async fn show_life(&mut self) {
        for reply in self.ledger.replies().into_iter().chain(self.turn.replies()) {
            answer(&self.connection.client, reply, AckKind::Progress).await;
        }
    }

    fn count(&mut self) {
        if self.counting.is_none() {
            self.counting = Some(Box::pin(census(self.connection.clone(), self.options.durable.clone())));
        }
    }

    async fn counted(&mut self, census: Result<Census>) {
        if let Err(error) = &census {
            debug!(%error, source = source_of(error), "could not look at the consumer; it is tried again");
        }
        let copies = self.turn.settle(census.ok(), Instant::now());
        if !copies.is_empty() {
            info!(consumer = %self.options.durable, messages = copies.len(), "took the turn");
        }
        self.handle(copies).await;
    }

    async fn close(&mut self) {
        while let Ok(control) = self.controls.try_recv() {
            self.take(control).await;
        }
        let held_turn = self.turn.pin().is_some();
        let given_back = self.ledger.give_all_back().into_iter().chain(self.turn.lose());
        for reply in given_back.collect::<Vec<_>>() {
            answer(&self.connection.client, reply, AckKind::Nak(None)).await;
        }
        let last_words = async {
            // What the server has sent already would otherwise be held up for the ack wait.
            if self.answers.drain().await.is_ok() {
                while let Some(message) = self.answers.next().await {
                    if let (Some(reply), None) = (message.reply, message.status) {
                        answer(&self.connection.client, reply, AckKind::Nak(None)).await;
                    }
                }
            }
            if held_turn && let Ok(stream) = self.connection.jetstream.get_stream_no_info(STREAM).await {
                let _ = stream.unpin_consumer(&self.options.durable, PRIORITY_GROUP).await;
            }
            let _ = self.connection.client.flush().await;
        };
        if timeout(CLOSING, last_words).await.is_err() {
            debug!("closed without the bus having heard of it");
        }
    }
}

fn source_of(error: &Error) -> String {
    std::error::Error::source(error)
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// The task's result, once; never when there is no task.
async fn pending_or<T>(task: &mut Option<Task<T>>) -> T {
    let Some(running) = task else {
        return std::future::pending().await;
    };
    let result = running.await;
    *task = None;
    result
}

async fn answer(client: &Client, reply: Subject, kind: AckKind) {
    if let Err(error) = client.publish(reply, kind.into()).await {
        debug!(%error, "could not answer the stream; it delivers the message again");
    }
}
