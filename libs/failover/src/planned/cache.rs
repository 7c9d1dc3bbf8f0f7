//! `WaitingForDragonflySync` and `PromotingDragonfly`: the cache's part, bounded so that it never holds MySQL up for long.

use std::time::Duration;

use bloodraven_types::command::{Command, SyncCache, TakeOverCache};
use bloodraven_types::fact::{CacheFailed, CacheOffset, CacheSynced, CacheTakenOver};
use bloodraven_types::record::{
    DragonflyRun, DragonflySettings, OffsetState, PlannedFailover, Sessions, Takeover, TakeoverMethod,
};
use bloodraven_types::words::OnSyncTimeout;
use bloodraven_types::{Group, Phase, Reason, StepState, Timestamp};

use super::authority::inconsistent;
use super::executing::{intend_promotion, roll_back};
use super::{CacheFact, Illegal, Input, Step, Verdict, illegal};
use crate::deadlines;

pub(super) fn commands(run: &PlannedFailover) -> Vec<Command> {
    let (Some(source), Some(settings), Some(dragonfly)) = (&run.source_site, &run.settings.dragonfly, &run.dragonfly)
    else {
        return Vec::new();
    };
    let target = run.target_site.clone();
    match (&dragonfly.takeover, dragonfly.sync_wait_start_time) {
        // Once it has succeeded there is nothing left to ask for: the next write is the promotion's intent.
        (Some(takeover), _) if takeover.state == StepState::Succeeded => Vec::new(),
        (Some(takeover), _) => vec![Command::TakeOverCache(TakeOverCache {
            source: source.clone(),
            target,
            timeout_seconds: whole_seconds_up(settings.max_sync_wait.get()),
            deadline: takeover.intent_time.after(takeover_limit(settings)),
        })],
        (None, Some(start)) => vec![Command::SyncCache(SyncCache {
            source: source.clone(),
            target,
            source_offset: dragonfly.source_offset,
            deadline: start.after(settings.max_sync_wait.get()),
        })],
        (None, None) => Vec::new(),
    }
}

/// Dragonfly takes its timeout in whole seconds (PF-DFY-03).
fn whole_seconds_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Past this no takeover is started (PF-DFY-07).
fn takeover_limit(settings: &DragonflySettings) -> Duration {
    deadlines::CACHE_GATES + settings.max_sync_wait.get() + deadlines::CACHE_REPLY
}

pub(super) fn waiting_for_sync(
    group: &Group,
    run: &PlannedFailover,
    input: Input,
    now: Timestamp,
) -> Result<Verdict, Illegal> {
    let (Some(settings), Some(dragonfly)) = (&run.settings.dragonfly, &run.dragonfly) else {
        return Ok(inconsistent(
            group,
            run,
            "no cache settings in WaitingForDragonflySync",
            now,
        ));
    };
    match input {
        Input::Cache(CacheFact::Offset(offset)) => Ok(offset_now(group, run, dragonfly, &offset, now)),
        Input::Cache(CacheFact::Synced(synced)) => Ok(synced_now(group, run, dragonfly, &synced, now)),
        Input::Cache(CacheFact::Failed(failed)) => Ok(without_cache(group, run, &failed, now)),
        Input::Cache(CacheFact::TakenOver(_)) => Err(illegal(run, &input)),
        Input::Tick => {
            let limit = settings.max_sync_wait.get() + deadlines::KEEPER_GRACE;
            if dragonfly
                .sync_wait_start_time
                .is_some_and(|start| now < start.after(limit))
            {
                return Ok(Verdict::nothing());
            }
            let detail = format!(
                "the target cache did not reach the offset within {}",
                settings.max_sync_wait
            );
            Ok(without_cache(
                group,
                run,
                &CacheFailed {
                    reason: Reason::DragonflySyncTimeout,
                    detail,
                },
                now,
            ))
        }
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)) => Err(illegal(run, &other)),
    }
}

fn offset_now(
    group: &Group,
    run: &PlannedFailover,
    dragonfly: &DragonflyRun,
    offset: &CacheOffset,
    now: Timestamp,
) -> Verdict {
    if dragonfly.source_offset_state.is_some() {
        return Verdict::nothing();
    }
    let mut next = run.clone();
    let state = if offset.offset.is_some() {
        OffsetState::Captured
    } else {
        OffsetState::Unavailable
    };
    next.dragonfly = Some(DragonflyRun {
        source_offset_state: Some(state),
        source_offset: offset.offset,
        ..dragonfly.clone()
    });
    if state == OffsetState::Unavailable {
        let detail = "the source cache's offset could not be read".to_owned();
        return without_cache(
            group,
            &next,
            &CacheFailed {
                reason: Reason::DragonflySyncTimeout,
                detail,
            },
            now,
        );
    }
    Verdict::Write(Step::status(group, next))
}

fn synced_now(
    group: &Group,
    run: &PlannedFailover,
    dragonfly: &DragonflyRun,
    synced: &CacheSynced,
    now: Timestamp,
) -> Verdict {
    // Synced means: with the offset on the record. Without one there, or short of it, this is some other offset's word.
    if dragonfly
        .source_offset
        .is_none_or(|offset| synced.target_offset < offset)
    {
        return Verdict::nothing();
    }
    let mut next = run.clone();
    next.phase = Phase::PromotingDragonfly;
    next.message = "promoting the target cache".to_owned();
    next.dragonfly = Some(DragonflyRun {
        sync_wait_seconds: dragonfly.sync_wait_start_time.map(|start| now.since(start).as_secs()),
        takeover: Some(Takeover {
            state: StepState::Intended,
            intent_time: now,
            completion_time: None,
            method: Some(TakeoverMethod::ReplTakeover),
            target_offset: None,
        }),
        ..dragonfly.clone()
    });
    Verdict::Write(Step::status(group, next))
}

pub(super) fn promoting(
    group: &Group,
    run: &PlannedFailover,
    input: Input,
    now: Timestamp,
) -> Result<Verdict, Illegal> {
    let (Some(settings), Some(dragonfly)) = (&run.settings.dragonfly, &run.dragonfly) else {
        return Ok(inconsistent(group, run, "no cache settings in PromotingDragonfly", now));
    };
    let Some(takeover) = &dragonfly.takeover else {
        return Ok(inconsistent(
            group,
            run,
            "no takeover intent in PromotingDragonfly",
            now,
        ));
    };
    match input {
        // Its success is on the record: whatever is told of the takeover now is late, and the run goes on (PF-DFY-04).
        Input::Cache(CacheFact::TakenOver(_) | CacheFact::Failed(_)) | Input::Tick
            if takeover.state == StepState::Succeeded =>
        {
            let mut next = run.clone();
            let Some(promotion) = &run.promotion else {
                return Ok(inconsistent(group, run, "no pinned target in PromotingDragonfly", now));
            };
            intend_promotion(&mut next, promotion.target_server_uuid, now);
            Ok(Verdict::Write(Step::status(group, next)))
        }
        Input::Cache(CacheFact::TakenOver(taken)) => Ok(taken_over_now(group, run, dragonfly, takeover, &taken, now)),
        Input::Cache(CacheFact::Failed(failed)) => Ok(without_cache(group, run, &failed, now)),
        Input::Cache(CacheFact::Offset(_) | CacheFact::Synced(_)) => Err(illegal(run, &input)),
        Input::Tick => {
            let limit = takeover_limit(settings) + deadlines::KEEPER_GRACE;
            if now < takeover.intent_time.after(limit) {
                return Ok(Verdict::nothing());
            }
            let detail = "the cache takeover was not confirmed in time".to_owned();
            Ok(without_cache(
                group,
                run,
                &CacheFailed {
                    reason: Reason::DragonflyPromotionFailed,
                    detail,
                },
                now,
            ))
        }
        other @ (Input::Requested { .. }
        | Input::RemoveRequest { .. }
        | Input::Cancelled
        | Input::Admission(_)
        | Input::Fence(_)
        | Input::Drain(_)
        | Input::CatchUp(_)
        | Input::Promotion(_)
        | Input::Rollback(_)
        | Input::Published(_)) => Err(illegal(run, &other)),
    }
}

/// The takeover's result has its own write while the phase still reads PromotingDragonfly.
fn taken_over_now(
    group: &Group,
    run: &PlannedFailover,
    dragonfly: &DragonflyRun,
    takeover: &Takeover,
    taken: &CacheTakenOver,
    now: Timestamp,
) -> Verdict {
    let mut next = run.clone();
    next.dragonfly = Some(DragonflyRun {
        takeover: Some(Takeover {
            state: StepState::Succeeded,
            completion_time: Some(now),
            target_offset: taken.target_offset,
            ..takeover.clone()
        }),
        sessions: Some(Sessions::Preserved),
        ..dragonfly.clone()
    });
    Verdict::Write(Step::status(group, next).then(Input::Tick))
}

/// The cache cannot follow: `onSyncTimeout` decides (PF-DFY-08).
fn without_cache(group: &Group, run: &PlannedFailover, failed: &CacheFailed, now: Timestamp) -> Verdict {
    let policy = run
        .settings
        .dragonfly
        .as_ref()
        .map_or(OnSyncTimeout::Proceed, |settings| settings.on_sync_timeout);
    let mut next = run.clone();
    let mut dragonfly = next.dragonfly.take().unwrap_or_default();
    dragonfly.sessions = Some(Sessions::Lost);
    dragonfly.reason = Some(failed.reason);
    if let Some(takeover) = &mut dragonfly.takeover {
        takeover.state = StepState::Failed;
        takeover.completion_time = Some(now);
    }
    next.dragonfly = Some(dragonfly);
    match (policy, &run.promotion) {
        (OnSyncTimeout::Fail, _) => Verdict::Write(roll_back(group, &next, failed.reason, &failed.detail, now)),
        (OnSyncTimeout::Proceed, Some(promotion)) => {
            let target_server_uuid = promotion.target_server_uuid;
            intend_promotion(&mut next, target_server_uuid, now);
            Verdict::Write(Step::status(group, next))
        }
        (OnSyncTimeout::Proceed, None) => inconsistent(group, run, "no pinned target before the promotion", now),
    }
}
