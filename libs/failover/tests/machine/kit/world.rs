//! A world: one group, a clock, and everything that has been said. Steps are applied as the record keeper applies them.

use bloodraven_failover::{Effect, Illegal, Input, Step, Verdict, Write, commands, step};
use bloodraven_types::annotation::PLANNED_FAILOVER;
use bloodraven_types::words::OnSyncTimeout;
use bloodraven_types::{
    Command, EventReason, Fact, Group, Phase, PlannedFailover, ResourceVersion, RunId, RunRef, SiteName, Warning,
};
use uuid::Uuid;

use super::groups::{self, PDX, at};
use super::{Ending, facts};

/// One group and what became of it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) group: Group,
    /// Seconds since the tests' beginning.
    pub(crate) now: i64,
    pub(crate) effects: Vec<Effect>,
    /// How many conditioned writes were made.
    pub(crate) writes: u32,
    ids: u128,
}

impl World {
    pub(crate) fn of(group: Group) -> Self {
        Self {
            group,
            now: 0,
            effects: Vec::new(),
            writes: 0,
            ids: 0,
        }
    }

    /// A group without a cache.
    pub(crate) fn orders() -> Self {
        Self::of(groups::orders())
    }

    /// A group with a cache.
    pub(crate) fn with_cache(on_sync_timeout: OnSyncTimeout) -> Self {
        let mut group = groups::orders();
        groups::with_cache(&mut group, on_sync_timeout);
        Self::of(group)
    }

    /// A run to `pdx` that has come as far as `phase`, on the way of a run that goes well, or back for `TargetLost`.
    pub(crate) fn at_phase(phase: Phase) -> Self {
        let cached = matches!(phase, Phase::WaitingForDragonflySync | Phase::PromotingDragonfly);
        let mut world = if cached {
            Self::with_cache(OnSyncTimeout::Proceed)
        } else {
            Self::orders()
        };
        if phase == Phase::Deferred {
            world.group.spec.planned_failover.on_cooldown = bloodraven_types::words::OnCooldown::Defer;
            groups::failed_over(&mut world.group, groups::IAD, -100);
        }
        world.annotate(PDX);
        world.go_to(phase);
        world
    }

    fn go_to(&mut self, phase: Phase) {
        for _ in 0..20 {
            if self.phase() == phase {
                return;
            }
            let next = match self.phase() {
                Phase::Admitting if phase == Phase::Failed => facts::refused(bloodraven_types::Reason::TargetUnhealthy),
                Phase::Admitting => facts::granted(),
                Phase::Fencing => facts::fenced(),
                Phase::Draining => facts::drained(),
                Phase::WaitingForLag if phase == Phase::RollingBack => {
                    facts::catch_up_failed(bloodraven_types::Reason::TargetLost)
                }
                Phase::WaitingForLag => facts::caught_up(),
                Phase::WaitingForDragonflySync => {
                    self.tell(facts::cache_offset(Some(81_723)));
                    facts::cache_synced(81_723)
                }
                Phase::PromotingDragonfly => facts::cache_taken_over(),
                Phase::Promoting if phase == Phase::Publishing => {
                    self.tell(facts::promoted());
                    return self.stop_at_publishing();
                }
                Phase::Promoting => {
                    self.tell(facts::promoted());
                    facts::published()
                }
                other @ (Phase::Deferred
                | Phase::Publishing
                | Phase::RollingBack
                | Phase::Succeeded
                | Phase::Failed) => panic!("{other} does not lead to {phase}"),
            };
            self.tell(next);
        }
        panic!("{phase} was not reached");
    }

    /// Publishing is left in the same pass, so a crash is what makes it stand.
    fn stop_at_publishing(&mut self) {
        let mut input = self.input_of(facts::published());
        while self.phase() != Phase::Publishing {
            input = self.one_write(input).unwrap().unwrap();
        }
    }

    pub(crate) fn run(&self) -> &PlannedFailover {
        self.group.run().expect("there is a run")
    }

    pub(crate) fn phase(&self) -> Phase {
        self.run().phase
    }

    pub(crate) fn ending(&self) -> Ending {
        let result = self.run().result.as_ref().expect("the run has ended");
        (result.outcome, result.reason)
    }

    pub(crate) fn warnings(&self) -> Vec<Warning> {
        self.run().result.as_ref().expect("the run has ended").warnings.clone()
    }

    pub(crate) fn request_stands(&self) -> bool {
        self.group.annotation(PLANNED_FAILOVER).is_some()
    }

    pub(crate) fn about(&self) -> RunRef {
        RunRef::of(&self.group).expect("there is a run")
    }

    pub(crate) fn commands(&self) -> Vec<Command> {
        commands(&self.group)
    }

    /// The one command of the record.
    pub(crate) fn command(&self) -> Command {
        let commands = self.commands();
        assert_eq!(commands.len(), 1, "{commands:?}");
        commands[0].clone()
    }

    /// The Events so far, with their messages.
    pub(crate) fn events(&self) -> Vec<(EventReason, &str)> {
        self.effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Event { reason, message } => Some((*reason, message.as_str())),
                Effect::Ended { .. } | Effect::LagWaited { .. } | Effect::Deferred { .. } | Effect::Released { .. } => {
                    None
                }
            })
            .collect()
    }

    /// The message of the last Event of this reason.
    pub(crate) fn event(&self, wanted: EventReason) -> &str {
        let found = self.events().into_iter().rev().find(|(reason, _)| *reason == wanted);
        found
            .unwrap_or_else(|| panic!("no {wanted} among {:?}", self.events()))
            .1
    }

    pub(crate) fn count(&self, wanted: EventReason) -> usize {
        self.events().iter().filter(|(reason, _)| *reason == wanted).count()
    }

    /// Time passes.
    pub(crate) fn after(&mut self, seconds: i64) {
        self.now += seconds;
    }

    /// Time passes, and the keeper looks.
    pub(crate) fn tick_after(&mut self, seconds: i64) {
        self.after(seconds);
        self.tick();
    }

    pub(crate) fn tick(&mut self) {
        self.input(Input::Tick).expect("a tick has a place everywhere");
    }

    /// Somebody annotates the group, and the request is told.
    pub(crate) fn annotate(&mut self, value: &str) {
        self.write_request(value);
        self.input(self.request()).expect("a request has a place everywhere");
    }

    /// Somebody annotates the group, and nobody has told it yet.
    pub(crate) fn write_request(&mut self, value: &str) {
        self.group
            .annotations
            .insert(PLANNED_FAILOVER.to_owned(), value.to_owned());
        self.ids += 1;
        self.touch();
    }

    /// The annotation is removed by hand.
    pub(crate) fn remove_request(&mut self) {
        self.group.annotations.remove(PLANNED_FAILOVER);
        self.touch();
    }

    /// What is told of the annotation that stands.
    pub(crate) fn request(&self) -> Input {
        Input::Requested {
            run_id: RunId::new(Uuid::from_u128(0xA000 + self.ids)),
            value: self.group.annotation(PLANNED_FAILOVER).unwrap().to_owned(),
        }
    }

    /// A fact is told of the record as it stands.
    pub(crate) fn tell(&mut self, fact: Fact) {
        let name = fact.name();
        let input = self.input_of(fact);
        if let Err(illegal) = self.input(input) {
            panic!("{name}: {illegal}");
        }
    }

    /// A fact that has no place in the record: nothing happens.
    pub(crate) fn no_place_for(&mut self, fact: Fact) {
        let before = (self.group.clone(), self.effects.len());
        let input = self.input_of(fact);
        self.input(input).unwrap_err();
        assert_eq!(before, (self.group.clone(), self.effects.len()));
    }

    pub(crate) fn input_of(&self, fact: Fact) -> Input {
        let run_id = self.group.run().map_or(RunId::new(Uuid::nil()), |run| run.run_id);
        Input::from_fact(run_id, fact)
    }

    /// Takes an input in with everything that follows from it.
    pub(crate) fn input(&mut self, input: Input) -> Result<(), Illegal> {
        let mut next = Some(input);
        let mut writes = 0;
        while let Some(input) = next.take() {
            next = self.one_write(input)?;
            writes += 1;
            assert!(writes < 12, "a pass does not end");
        }
        Ok(())
    }

    /// Takes an input in as far as its first write, as a process does that is killed right after it. Gives what follows.
    pub(crate) fn one_write(&mut self, input: Input) -> Result<Option<Input>, Illegal> {
        match step(&self.group, input, at(self.now))? {
            Verdict::Nothing(effects) => {
                self.effects.extend(effects);
                Ok(None)
            }
            Verdict::Write(step) => {
                self.commit(&step);
                self.effects.extend(step.effects);
                Ok(step.then)
            }
        }
    }

    /// The conditioned write, held against what every write of the machine keeps.
    fn commit(&mut self, step: &Step) {
        match &step.write {
            Write::Status(status) => {
                keeps_to_its_fields(&self.group, status);
                self.group.status = (**status).clone();
            }
            Write::Annotations(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => self.group.annotations.insert(key.clone(), value.clone()),
                        None => self.group.annotations.remove(key),
                    };
                }
            }
        }
        self.writes += 1;
        self.touch();
    }

    pub(crate) fn touch(&mut self) {
        let version: u64 = self.group.resource_version.as_str().parse().unwrap();
        self.group.resource_version = ResourceVersion::new((version + 1).to_string());
    }

    /// A site disappears from the spec.
    pub(crate) fn drop_site(&mut self, name: &str) {
        self.group.spec.sites.retain(|site| site.name != SiteName::new(name));
        self.touch();
    }
}

/// A status write moves the run on by one revision, and touches nothing that belongs to others.
fn keeps_to_its_fields(before: &Group, after: &bloodraven_types::GroupStatus) {
    let run = after.planned_failover.as_ref().expect("a status write keeps the run");
    let known = before.run().filter(|known| known.run_id == run.run_id);
    let revision = known.map_or(0, |known| known.revision.get());
    assert_eq!(run.revision.get(), revision + 1, "one revision a write");
    assert_eq!(after.sites, before.status.sites);
    assert_eq!(after.active_site, before.status.active_site);
    assert_eq!(after.legacy_run, before.status.legacy_run);
    if let Some(known) = known {
        assert!(!known.phase.is_terminal(), "a terminal record is never rewritten");
    }
    let epoch = after.claim.as_ref().map_or(0, |claim| claim.epoch.get());
    let taken = known.is_some_and(|known| known.phase == Phase::Admitting) && run.phase == Phase::Fencing;
    assert_eq!(
        epoch,
        before.epoch().get() + u64::from(taken),
        "the epoch grows with the claim's taking alone"
    );
}
