//! The cast: every process of a deployment as one task, with the real procedures, desks and keeper, crashed at will.

mod admission;
mod desk;
mod keeper;
mod topology;

use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{Either, LocalBoxFuture, select};
use futures::stream::{FuturesUnordered, StreamExt};

pub use desk::perform;
pub use keeper::SimKeeper;

use crate::bus::{Hears, Inbox};
use crate::journal::Event;
use crate::random::Random;
use crate::server::Link;
use crate::world::World;

/// How a story is told.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In thousandths: how often a process is ended in the middle of what it has just begun.
    pub crashes: u64,
    /// Until when processes are ended.
    pub crashes_until: Duration,
    /// How long a process takes to start again.
    pub restart: RangeInclusive<Duration>,
    /// How often a client writes.
    pub client_pause: Option<RangeInclusive<Duration>>,
    /// How long a server, or the API server, falls silent: one at a time and with pauses of up to five times as long, for as
    /// long as processes are ended.
    pub silences: Option<RangeInclusive<Duration>>,
}

/// The processes of a deployment.
pub struct Cast {
    world: World,
    plan: Plan,
    random: Random,
    roles: Vec<LocalBoxFuture<'static, ()>>,
}

/// What one process has at hand.
#[derive(Clone)]
pub(crate) struct Role {
    pub(crate) world: World,
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    pub(crate) name: &'static str,
}

/// A future that is dropped once it has been polled so often: a process that is ended at one of its awaits. It has no
/// output then.
pub struct Mortal<F> {
    future: Option<Pin<Box<F>>>,
    polls: Option<u64>,
}

impl Default for Plan {
    /// Nothing is crashed and nobody writes.
    fn default() -> Self {
        Self {
            crashes: 0,
            crashes_until: Duration::ZERO,
            restart: Duration::from_millis(5)..=Duration::from_millis(1500),
            client_pause: None,
            silences: None,
        }
    }
}

impl Cast {
    /// Everybody, ready to begin.
    pub fn new(world: &World, plan: Plan) -> Self {
        let random = world.state().random.fork();
        let mut cast = Self {
            world: world.clone(),
            plan,
            random,
            roles: Vec::new(),
        };
        let facts = world.listen(Hears::Facts);
        let role = cast.role("status-writer");
        cast.roles.push(Box::pin(keeper::keep(role, facts)));
        let changes = world.listen(Hears::Changes);
        let role = cast.role("admission");
        cast.roles.push(Box::pin(admission::admit(role, changes)));
        cast.desk("fencer", &["fence", "drain", "unfence"]);
        cast.desk("lag-watcher", &["await-catch-up"]);
        cast.desk("promoter", &["promote", "restore-target"]);
        cast.desk("prober", &["probe-grant"]);
        cast.desk("publisher", &["publish"]);
        let role = cast.role("topology-manager");
        cast.roles.push(Box::pin(topology::observe(role)));
        let changes = world.listen(Hears::Changes);
        let role = cast.role("labels");
        cast.roles.push(Box::pin(topology::label(role, changes)));
        if let Some(pause) = cast.plan.client_pause.clone() {
            let role = cast.role("client");
            cast.roles.push(Box::pin(write(role, pause)));
        }
        if let Some(length) = cast.plan.silences.clone() {
            let role = cast.role("network");
            cast.roles.push(Box::pin(fall_silent(role, length)));
        }
        cast
    }

    /// Lets everybody act until `story` is over.
    pub async fn play<T>(self, story: impl Future<Output = T>) -> T {
        let mut roles: FuturesUnordered<_> = self.roles.into_iter().collect();
        let everybody = async move { while roles.next().await.is_some() {} };
        let mut everybody = Box::pin(everybody);
        let story = Box::pin(story);
        match select(story, everybody.as_mut()).await {
            Either::Left((output, _)) => output,
            Either::Right(((), story)) => story.await,
        }
    }

    fn role(&mut self, name: &'static str) -> Role {
        Role {
            world: self.world.clone(),
            plan: self.plan.clone(),
            random: self.random.fork(),
            name,
        }
    }

    fn desk(&mut self, name: &'static str, commands: &'static [&'static str]) {
        let inbox: Inbox = self.world.listen(Hears::Commands(commands));
        let role = self.role(name);
        self.roles.push(Box::pin(desk::serve(role, inbox)));
    }
}

impl Role {
    /// Lets a future run that may be ended in the middle.
    pub(crate) fn mortal<F: Future>(&mut self, future: F) -> Mortal<F> {
        let early = self.world.time.now() < self.plan.crashes_until;
        let dies = early && self.random.chance(self.plan.crashes);
        Mortal {
            future: Some(Box::pin(future)),
            polls: dies.then(|| self.random.below(30)),
        }
    }

    /// The process was ended: it comes back after a while.
    pub(crate) async fn restart(&mut self) {
        {
            let mut state = self.world.state();
            let now = state.now();
            state.journal.push(now, Event::Crashed(self.name));
        }
        let pause = self.random.duration(&self.plan.restart);
        self.world.time.sleep(pause).await;
    }
}

impl<F: Future> Mortal<F> {
    /// A future that ends at its await of that number, when it gets that far.
    pub fn after(polls: u64, future: F) -> Self {
        Self {
            future: Some(Box::pin(future)),
            polls: Some(polls),
        }
    }
}

impl<F: Future> Future for Mortal<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        match &mut self.polls {
            Some(0) => {
                // Whatever it had in hand is dropped here, as the end of a process drops it.
                self.future = None;
                Poll::Ready(None)
            }
            Some(left) => {
                *left -= 1;
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}

/// Clients that know no better than to try every site.
async fn write(mut role: Role, pause: RangeInclusive<Duration>) {
    loop {
        let pause = role.random.duration(&pause);
        role.world.time.sleep(pause).await;
        let mut state = role.world.state();
        let sites: Vec<_> = state.servers.keys().cloned().collect();
        for site in sites {
            state.client_write(&site);
        }
    }
}

/// Servers that stop answering for a while, one at a time; the API server is one of them.
async fn fall_silent(mut role: Role, length: RangeInclusive<Duration>) {
    while role.world.time.now() < role.plan.crashes_until {
        let pause = role.random.duration(&length) * 5;
        role.world.time.sleep(pause).await;
        let sites: Vec<_> = role.world.state().servers.keys().cloned().collect();
        let chosen = role.random.below(u64::try_from(sites.len()).unwrap_or_default() + 1);
        let site = usize::try_from(chosen).ok().and_then(|chosen| sites.get(chosen));
        let pause = role.random.duration(&length);
        let answers = |answers: bool| {
            let mut state = role.world.state();
            match site {
                Some(site) if answers => state.change(site.as_str(), |server| server.link = Link::Up),
                Some(site) => state.change(site.as_str(), |server| server.link = Link::Silent),
                None => state.api.answers = answers,
            }
        };
        answers(false);
        role.world.time.sleep(pause).await;
        answers(true);
    }
}
