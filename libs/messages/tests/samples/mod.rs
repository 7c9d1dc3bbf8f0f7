//! One message of each name, with every field set at least once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::collections::BTreeMap;

use bloodraven_messages::v1::Message;
use bloodraven_types::annotation::{CONFIRMED, RunSince};
use bloodraven_types::command::{
    AwaitCatchUp, DrainSource, FenceSource, ProbeGrant, PromoteTarget, PublishAuthority, RestoreTarget, SyncCache,
    TakeOverCache, UnfenceSource,
};
use bloodraven_types::fact::{
    CacheFailed, CacheOffset, CacheSynced, CacheTakenOver, Cancelled, CaughtUp, Drained, Fenced, Granted, Lagging,
    Promoted, PromotionFailed, PromotionReach, Published, Refused, Requested, StepFailed, TargetRestored,
    UnfenceFailed, UnfenceObstacle, Unfenced, Waiting,
};
use bloodraven_types::group::{
    ClaimKind, ClaimStatus, FailoverRecord, Group, GroupSpec, GroupStatus, PlannedFailoverSpec,
};
use bloodraven_types::record::{
    Admission, ClaimBaseline, DnsPublication, DragonflyRun, DragonflySettings, Drain, Fence, LagWait, OffsetState,
    PlannedFailover, Promotion, Rollback, RollbackTarget, RunResult, Sessions, Settings, Takeover, TakeoverMethod,
};
use bloodraven_types::run::RunRef;
use bloodraven_types::words::{DeferReason, OnSyncTimeout};
use bloodraven_types::{
    Command, Epoch, Fact, GroupKey, ObjectUid, Outcome, Phase, Reason, ResourceVersion, Revision, RunId, ServerUuid,
    Span, StepState, Timestamp, WaitReason, Warning,
};

const SET: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77";

/// A group whose name has a dot.
pub(crate) fn key() -> GroupKey {
    GroupKey::new("default", "orders.eu")
}

pub(crate) fn run_id() -> RunId {
    "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap()
}

fn source_uuid() -> ServerUuid {
    "3e11fa47-71ca-11e1-9e33-c80aa9429562".parse().unwrap()
}

fn target_uuid() -> ServerUuid {
    "4f22fa47-71ca-11e1-9e33-c80aa9429562".parse().unwrap()
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_776_695_520 + second)
}

fn said_at() -> Timestamp {
    "2026-04-20T14:32:09.417Z".parse().unwrap()
}

pub(crate) fn about() -> RunRef {
    RunRef {
        group: key(),
        uid: ObjectUid::new("6f2a9c1e-0000-4000-8000-000000000001"),
        run_id: run_id(),
        revision: Revision::new(3),
        epoch: Epoch::new(7),
    }
}

/// One message of each name, in the order of the names.
pub(crate) fn all() -> Vec<Message> {
    let fact = |fact| Message::fact("fencer", said_at(), about(), 1_776_695_529_417, fact);
    let command = |command| Message::command("status-writer", said_at(), about(), 1, command);
    let record = |phase| Message::record("status-writer", said_at(), &group(phase), 1_776_695_529_417).unwrap();
    let phases = Phase::ALL.iter().map(|phase| record(*phase));
    facts()
        .into_iter()
        .map(fact)
        .chain(commands().into_iter().map(command))
        .chain(phases)
        .collect()
}

fn facts() -> Vec<Fact> {
    let failed = |reason| StepFailed {
        reason,
        detail: "iad did not answer".to_owned(),
        sent: true,
    };
    let restored = || TargetRestored {
        super_read_only: true,
        replicating: false,
        detail: "no channel".to_owned(),
    };
    vec![
        Fact::Requested(Requested {
            value: "pdx:maxLagWait=2m".to_owned(),
        }),
        Fact::Cancelled(Cancelled {}),
        Fact::Granted(Granted {
            source: "iad".into(),
            source_server_uuid: source_uuid(),
            target_server_uuid: target_uuid(),
            unreachable_readers: vec!["sea".into()],
        }),
        Fact::Waiting(Waiting {
            reason: WaitReason::TargetLagging,
            detail: "pdx is 12s behind".to_owned(),
        }),
        Fact::Refused(Refused {
            reason: Reason::DivergentTarget,
            detail: "pdx has 2 others".to_owned(),
        }),
        Fact::Fenced(Fenced {
            source_server_uuid: source_uuid(),
            gtid_set: SET.to_owned(),
            apply_time: at(9),
            unreachable_peers: vec!["ord".into()],
        }),
        Fact::FenceFailed(failed(Reason::FenceFailed)),
        Fact::Drained(Drained {
            remaining_connections: Some(2),
            killed: 40,
            error: None,
        }),
        Fact::DrainFailed(failed(Reason::SourceUnfenced)),
        Fact::CaughtUp(CaughtUp {
            target_server_uuid: target_uuid(),
            gtid_executed: SET.to_owned(),
        }),
        Fact::Lagging(Lagging {
            missing_transactions: 12,
        }),
        Fact::CatchUpFailed(failed(Reason::TargetLost)),
        Fact::CacheOffset(CacheOffset {
            offset: Some(1_048_576),
        }),
        Fact::CacheSynced(CacheSynced {
            target_offset: 1_048_576,
        }),
        Fact::CacheTakenOver(CacheTakenOver { target_offset: None }),
        Fact::CacheFailed(CacheFailed {
            reason: Reason::ForeignWritable,
            detail: "no answer".to_owned(),
        }),
        Fact::Promoted(Promoted {
            target_server_uuid: target_uuid(),
            confirmation_time: at(12),
            unreachable_peers: Vec::new(),
        }),
        Fact::PromotionFailed(PromotionFailed {
            reason: Reason::TargetLost,
            detail: "gone".to_owned(),
            reached: PromotionReach::MayBeWritable,
            ambiguous_sites: vec!["pdx".into()],
        }),
        Fact::TargetRestored(restored()),
        Fact::Unfenced(Unfenced {
            source_server_uuid: source_uuid(),
            already_writable: false,
            target: restored(),
        }),
        Fact::UnfenceFailed(UnfenceFailed {
            cause: UnfenceObstacle::TargetUnreadable,
            detail: "gone".to_owned(),
            target_replicating: false,
            ambiguous_sites: vec!["iad".into(), "pdx".into()],
        }),
        Fact::Published(Published {
            dns: Some(StepState::Failed),
            dns_error: Some("REFUSED".to_owned()),
            label_error: None,
            attempt_time: at(13),
        }),
    ]
}

fn commands() -> Vec<Command> {
    let (source, target, deadline) = (|| "iad".into(), || "pdx".into(), at(30));
    let (source_server_uuid, target_server_uuid) = (source_uuid(), target_uuid());
    let gtid_set = || SET.to_owned();
    vec![
        Command::ProbeGrant(ProbeGrant {
            target: target(),
            deadline,
        }),
        Command::Fence(FenceSource {
            source: source(),
            source_server_uuid,
            target: target(),
            deadline,
        }),
        Command::Drain(DrainSource {
            source: source(),
            source_server_uuid,
            deadline,
        }),
        Command::AwaitCatchUp(AwaitCatchUp {
            source: source(),
            source_server_uuid,
            target: target(),
            gtid_set: gtid_set(),
            deadline,
        }),
        Command::SyncCache(SyncCache {
            source: source(),
            target: target(),
            source_offset: Some(7),
            deadline,
        }),
        Command::TakeOverCache(TakeOverCache {
            source: source(),
            target: target(),
            timeout_seconds: 30,
            deadline,
        }),
        Command::Promote(PromoteTarget {
            source: source(),
            source_server_uuid,
            target: target(),
            target_server_uuid,
            gtid_set: gtid_set(),
            deadline,
        }),
        Command::RestoreTarget(RestoreTarget {
            source: source(),
            source_server_uuid,
            target: target(),
            target_server_uuid,
            gtid_set: gtid_set(),
            deadline,
        }),
        Command::Unfence(UnfenceSource {
            source: source(),
            source_server_uuid,
            target: target(),
            target_server_uuid: Some(target_server_uuid),
            gtid_set: Some(gtid_set()),
            attributable: true,
            retry: true,
            deadline,
        }),
        Command::Publish(PublishAuthority {
            target: target(),
            source: source(),
        }),
    ]
}

/// A group with a run in that phase. The sample of a run that failed has every field that a record can have.
pub(crate) fn group(phase: Phase) -> Group {
    let confirmed = RunSince {
        run_id: run_id(),
        since: at(12),
    }
    .to_string();
    Group {
        key: key(),
        uid: about().uid,
        resource_version: ResourceVersion::new("4711"),
        generation: 2,
        annotations: BTreeMap::from([(CONFIRMED.to_owned(), confirmed)]),
        spec: GroupSpec {
            sites: Vec::new(),
            failover_cooldown: Span::seconds(60),
            poll_interval: Span::seconds(1),
            failure_threshold: 3,
            recovery_threshold: 2,
            planned_failover: PlannedFailoverSpec::default(),
            dragonfly: None,
            dns: None,
        },
        status: GroupStatus {
            active_site: Some("iad".into()),
            last_failover: Some(FailoverRecord {
                time: at(12),
                target: "pdx".into(),
                promotion_gtid_executed: Some(SET.to_owned()),
            }),
            claim: Some(ClaimStatus {
                epoch: Epoch::new(7),
                kind: Some(ClaimKind::PlannedFailover),
                holder: Some(run_id().to_string()),
                since: Some(at(5)),
            }),
            planned_failover: Some(if phase == Phase::Failed {
                full_run()
            } else {
                bare_run(phase)
            }),
            ..GroupStatus::default()
        },
    }
}

fn bare_run(phase: Phase) -> PlannedFailover {
    PlannedFailover {
        run_id: run_id(),
        revision: Revision::new(3),
        phase,
        target_site: "pdx".into(),
        source_site: None,
        settings: Settings {
            max_lag_wait: Span::seconds(300),
            drain_timeout: Span::seconds(30),
            dragonfly: None,
        },
        start_time: at(0),
        claim_time: None,
        claim_baseline: None,
        admission: Admission::default(),
        fence: None,
        drain: None,
        lag_wait: None,
        dragonfly: None,
        promotion: None,
        dns: None,
        rollback: None,
        result: None,
        message: String::new(),
    }
}

fn full_run() -> PlannedFailover {
    let dragonfly = DragonflySettings {
        max_sync_wait: Span::seconds(30),
        on_sync_timeout: OnSyncTimeout::Proceed,
    };
    PlannedFailover {
        source_site: Some("iad".into()),
        settings: Settings {
            dragonfly: Some(dragonfly),
            ..bare_run(Phase::Failed).settings
        },
        claim_time: Some(at(5)),
        claim_baseline: Some(ClaimBaseline {
            time: Some(at(-9000)),
            target: Some("iad".into()),
        }),
        admission: Admission {
            deadline_time: Some(at(600)),
            validation_time: Some(at(1)),
            wait_reason: Some(WaitReason::TargetLagging),
            wait_detail: Some("pdx is 12s behind".to_owned()),
            defer_reason: Some(DeferReason::CooldownActive),
            retry_time: Some(at(60)),
        },
        fence: Some(Fence {
            state: StepState::Applied,
            intent_time: at(5),
            source_server_uuid: source_uuid(),
            apply_time: Some(at(6)),
            gtid_set: Some(SET.to_owned()),
            warnings: vec![Warning::UnreachablePeers],
        }),
        drain: Some(Drain {
            start_time: at(6),
            completion_time: Some(at(7)),
            remaining_connections: Some(0),
        }),
        lag_wait: Some(LagWait {
            start_time: at(7),
            catch_up_time: Some(at(8)),
        }),
        dragonfly: Some(DragonflyRun {
            sync_wait_start_time: Some(at(8)),
            source_offset_state: Some(OffsetState::Captured),
            source_offset: Some(7),
            sync_wait_seconds: Some(1),
            takeover: Some(Takeover {
                state: StepState::Succeeded,
                intent_time: at(9),
                completion_time: Some(at(10)),
                method: Some(TakeoverMethod::ReplTakeover),
                target_offset: Some(7),
            }),
            sessions: Some(Sessions::Preserved),
            reason: Some(Reason::DragonflyPromotionFailed),
        }),
        promotion: Some(Promotion {
            state: StepState::Confirmed,
            intent_time: at(10),
            target_server_uuid: target_uuid(),
            confirmation_time: Some(at(12)),
            warnings: vec![Warning::UnreachablePeers],
        }),
        dns: Some(DnsPublication {
            state: StepState::Failed,
            attempt_time: at(12),
            last_error: Some("REFUSED".to_owned()),
        }),
        rollback: Some(Rollback {
            reason: Reason::TargetLost,
            intent_time: at(13),
            detail: "pdx did not answer".to_owned(),
            target: Some(RollbackTarget {
                super_read_only: true,
                replicating: true,
            }),
        }),
        result: Some(RunResult {
            outcome: Outcome::RolledBack,
            reason: Some(Reason::TargetLost),
            completion_time: at(14),
            warnings: vec![Warning::UnreachablePeers],
        }),
        message: "pdx did not answer; iad is writable again".to_owned(),
        ..bare_run(Phase::Failed)
    }
}
