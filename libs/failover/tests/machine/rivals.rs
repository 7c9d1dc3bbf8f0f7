//! A planned run and an emergency detector on one group: whatever their interleaving, never do both act.
//!
//! The object stands behind conditioned writes, as on an API server. The keeper and the detector each work on a read that may
//! be old by the time they write. An executor reads the object and acts at once, as the lock on its server makes it do.

use bloodraven_failover::claim::{Claim, check_claimed, holder};
use bloodraven_failover::{Input, Verdict, Write, commands, step};
use bloodraven_types::annotation::PLANNED_FAILOVER;
use bloodraven_types::fact::PromotionReach::NothingWritten;
use bloodraven_types::fact::UnfenceObstacle;
use bloodraven_types::group::{ClaimKind, ClaimStatus};
use bloodraven_types::{Command, Fact, Group, Outcome, Reason, ResourceVersion, RunId, RunRef, WaitReason};
use uuid::Uuid;

use crate::kit::dice::Dice;
use crate::kit::{IAD, PDX, at, facts, groups, site};

/// One cell of the world: the object, and the two who would change roles.
struct Cell {
    dice: Dice,
    object: Group,
    now: i64,
    keeper: Option<Group>,
    inputs: Vec<(RunRef, Input)>,
    detector: Detector,
    takings: u64,
    emergencies: u32,
    planned_acts: u32,
}

/// Where the detector stands.
enum Detector {
    Idle,
    /// It has read a free claim and is about to take it.
    Decided(Box<Group>),
    /// It holds the claim and changes roles.
    Acting,
}

impl Cell {
    fn of(seed: u64) -> Self {
        Self {
            dice: Dice::of(seed),
            object: groups::orders(),
            now: 0,
            keeper: None,
            inputs: Vec::new(),
            detector: Detector::Idle,
            takings: 0,
            emergencies: 0,
            planned_acts: 0,
        }
    }

    /// A write conditioned on the version that was read. Whether it committed.
    fn write(&mut self, read: &Group, change: impl FnOnce(&mut Group)) -> bool {
        if read.resource_version != self.object.resource_version {
            return false;
        }
        change(&mut self.object);
        let version: u64 = self.object.resource_version.as_str().parse().unwrap();
        self.object.resource_version = ResourceVersion::new((version + 1).to_string());
        true
    }

    fn turn(&mut self) {
        match self.dice.throw(10) {
            0..=3 => self.keep(),
            4..=6 => self.execute(),
            7 => self.detect(),
            8 => {
                self.now += i64::try_from(self.dice.throw(4)).unwrap();
                self.tell(Input::Tick);
            }
            _ => self.annotate(),
        }
    }

    fn annotate(&mut self) {
        let live = self.object.run().is_some_and(|run| !run.phase.is_terminal());
        if !live && self.dice.once_in(2) {
            let read = self.object.clone();
            self.write(&read, |group| {
                group.annotations.insert(PLANNED_FAILOVER.to_owned(), PDX.to_owned());
            });
            let number = u128::from(self.takings) + 1000 * u128::try_from(self.now).unwrap();
            let requested = Input::Requested {
                run_id: RunId::new(Uuid::from_u128(number)),
                value: PDX.to_owned(),
            };
            self.tell(requested);
        }
    }

    fn tell(&mut self, input: Input) {
        let nobody = RunRef {
            group: self.object.key.clone(),
            uid: self.object.uid.clone(),
            run_id: RunId::new(Uuid::nil()),
            revision: bloodraven_types::Revision::default(),
            epoch: self.object.epoch(),
        };
        let about = RunRef::of(&self.object).unwrap_or(nobody);
        self.inputs.push((about, input));
    }

    /// The keeper takes an input in, on a read that may be old. Some inputs come again later.
    fn keep(&mut self) {
        if self.inputs.is_empty() {
            return;
        }
        if self.keeper.is_none() || self.dice.once_in(3) {
            self.keeper = Some(self.object.clone());
        }
        let known = self.keeper.clone().unwrap();
        let chosen = self.dice.throw(self.inputs.len());
        let (about, input) = self.inputs[chosen].clone();
        if !self.dice.once_in(5) {
            self.inputs.swap_remove(chosen);
        }
        let is_fact = !matches!(
            input,
            Input::Tick | Input::Requested { .. } | Input::RemoveRequest { .. }
        );
        let belongs = known
            .run()
            .is_some_and(|run| run.run_id == about.run_id && about.revision <= run.revision)
            && known.epoch() == about.epoch;
        if is_fact && !belongs {
            return;
        }
        let Ok(Verdict::Write(step)) = step(&known, input.clone(), at(self.now)) else {
            return;
        };
        let before = self.object.clone();
        let committed = self.write(&known, |group| match step.write {
            Write::Status(status) => group.status = *status,
            Write::Annotations(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => group.annotations.insert(key, value),
                        None => group.annotations.remove(&key),
                    };
                }
            }
        });
        self.keeper = None;
        if !committed {
            self.inputs.push((about, input));
            return;
        }
        self.judge(&before);
        if let Some(follows) = step.then.filter(|_| !self.dice.once_in(4)) {
            self.inputs.push((about, follows));
        }
    }

    /// What a write of the keeper must not do to the other's claim, and what it opens for it.
    fn judge(&mut self, before: &Group) {
        let (held, holds) = (holder(before), holder(&self.object));
        if matches!(held, Claim::Other { .. }) {
            assert_eq!(
                before.status.claim, self.object.status.claim,
                "the other's claim was touched"
            );
        }
        if matches!(holds, Claim::Planned { .. }) && held != holds {
            assert_eq!(held, Claim::Free, "a claim was taken that was not free");
            self.takings += 1;
        }
        if matches!(held, Claim::Planned { .. }) && held != holds {
            assert_eq!(holds, Claim::Free);
            let (read, decided) = (self.object.clone(), decide(&self.object));
            assert!(
                decided && read.resource_version == self.object.resource_version,
                "right after the release it can be taken"
            );
        }
    }

    /// The detector reads and decides, then takes, then acts, then releases: a step each time.
    fn detect(&mut self) {
        match std::mem::replace(&mut self.detector, Detector::Idle) {
            Detector::Idle => {
                if decide(&self.object) && self.dice.once_in(3) {
                    self.detector = Detector::Decided(Box::new(self.object.clone()));
                }
            }
            Detector::Decided(read) => {
                let (epoch, since) = (read.epoch().next(), at(self.now));
                let took = self.write(&read, |group| {
                    group.status.claim = Some(ClaimStatus {
                        epoch,
                        kind: Some(ClaimKind::Emergency),
                        holder: Some("topology-manager-0".to_owned()),
                        since: Some(since),
                    });
                });
                if took {
                    self.takings += 1;
                    self.detector = Detector::Acting;
                }
            }
            Detector::Acting => {
                assert!(
                    matches!(
                        holder(&self.object),
                        Claim::Other {
                            kind: ClaimKind::Emergency,
                            ..
                        }
                    ),
                    "it acts under its own claim"
                );
                self.emergencies += 1;
                let read = self.object.clone();
                let released = self.dice.once_in(2)
                    && self.write(&read, |group| {
                        let claim = group.status.claim.as_mut().unwrap();
                        *claim = ClaimStatus {
                            epoch: claim.epoch,
                            ..ClaimStatus::default()
                        };
                    });
                if !released {
                    self.detector = Detector::Acting;
                }
            }
        }
    }

    /// An executor carries out the command of a record that it once read, when the object of now still asks for it.
    fn execute(&mut self) {
        let Some(about) = RunRef::of(&self.object) else { return };
        let Some(command) = commands(&self.object).into_iter().next() else {
            return;
        };
        let changes_a_role = matches!(
            command,
            Command::Fence(_)
                | Command::Promote(_)
                | Command::RestoreTarget(_)
                | Command::Unfence(_)
                | Command::Drain(_)
        );
        if changes_a_role {
            if check_claimed(&self.object, &about, command.deadline(), at(self.now)).is_err() {
                return;
            }
            assert!(!matches!(self.detector, Detector::Acting), "both act");
            self.planned_acts += 1;
        }
        let fact = self.outcome_of(&command);
        self.inputs.push((about.clone(), Input::from_fact(about.run_id, fact)));
    }

    fn outcome_of(&mut self, command: &Command) -> Fact {
        let fails = self.dice.once_in(6);
        match command {
            Command::ProbeGrant(_) if fails => facts::waiting(WaitReason::PeerUnreadable, "fra is silent"),
            Command::ProbeGrant(_) => facts::granted(),
            Command::Fence(_) if fails => facts::fence_failed(Reason::FenceFailed),
            Command::Fence(_) => facts::fenced(),
            Command::Drain(_) if fails => facts::drain_failed(Reason::SourceLost),
            Command::Drain(_) => facts::drained(),
            Command::AwaitCatchUp(_) if fails => facts::catch_up_failed(Reason::LagTimeout),
            Command::AwaitCatchUp(_) => facts::caught_up(),
            Command::Promote(_) if fails => facts::promotion_failed(Reason::PeerUnreadable, NothingWritten),
            Command::Promote(_) => facts::promoted_at(self.now),
            Command::RestoreTarget(_) => facts::restored(),
            Command::Unfence(_) if fails => facts::unfence_failed(UnfenceObstacle::StatementsFailed),
            Command::Unfence(_) => facts::unfenced(),
            Command::Publish(_) => facts::published(),
            Command::SyncCache(_) | Command::TakeOverCache(_) => panic!("there is no cache"),
        }
    }
}

/// The detector's rule: it acts only while nobody holds the claim.
fn decide(group: &Group) -> bool {
    holder(group) == Claim::Free
}

/// A thousand seeded interleavings: never do both act, every taking has an epoch of its own, nobody's claim is taken or
/// released by the other, and the claim can be taken right after the release. spec: PF-CLM-01 report: B37
#[test]
fn the_detector_and_the_run_never_both_act() {
    let (mut planned, mut emergencies, mut succeeded, mut takings) = (0, 0, 0, 0);
    for seed in 0..1000 {
        let mut cell = Cell::of(seed);
        for _ in 0..400 {
            cell.turn();
        }
        assert_eq!(cell.object.epoch().get(), cell.takings, "seed {seed}");
        planned += cell.planned_acts;
        emergencies += cell.emergencies;
        takings += cell.takings;
        let result = cell.object.run().and_then(|run| run.result.as_ref());
        succeeded += u32::from(result.is_some_and(|result| result.outcome == Outcome::Succeeded));
    }
    assert!(
        planned > 2000 && emergencies > 2000 && succeeded > 20,
        "{planned} {emergencies} {succeeded}"
    );
    assert!(takings > 1000, "{takings}");
}

/// A run that waits for an emergency goes on once that has released the claim. spec: PF-ADM-12 report: B37
#[test]
fn a_run_goes_on_after_the_emergency() {
    let mut world = crate::kit::World::orders();
    world.annotate(PDX);
    world.group.status.claim = Some(ClaimStatus {
        epoch: bloodraven_types::Epoch::new(1),
        kind: Some(ClaimKind::Emergency),
        holder: Some("topology-manager-0".to_owned()),
        since: Some(at(0)),
    });
    world.tell(facts::granted());
    assert_eq!(world.run().admission.wait_reason, Some(WaitReason::PromotionInFlight));
    world.group.status.claim.as_mut().unwrap().kind = None;
    world.tell(facts::granted());
    assert_eq!(world.run().source_site, Some(site(IAD)));
    assert_eq!(world.group.epoch().get(), 2);
}
