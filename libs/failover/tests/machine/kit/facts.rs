//! The facts of a run from `iad` to `pdx` that goes well, and how its steps fail.

use bloodraven_types::fact::{
    CacheFailed, CacheOffset, CacheSynced, CacheTakenOver, CaughtUp, Drained, Fact, Fenced, Granted, Promoted,
    PromotionFailed, PromotionReach, Published, Refused, StepFailed, TargetRestored, UnfenceFailed, UnfenceObstacle,
    Unfenced, Waiting,
};
use bloodraven_types::{Reason, StepState, WaitReason};

use super::groups::{IAD, PDX, at, server, site};

/// What `iad` had executed when it was fenced.
pub(crate) fn fenced_set() -> String {
    format!("{}:1-100", server(IAD))
}

pub(crate) fn granted() -> Fact {
    Fact::Granted(Granted {
        source: site(IAD),
        source_server_uuid: server(IAD),
        target_server_uuid: server(PDX),
        unreachable_readers: Vec::new(),
    })
}

pub(crate) fn waiting(reason: WaitReason, detail: &str) -> Fact {
    Fact::Waiting(Waiting {
        reason,
        detail: detail.to_owned(),
    })
}

pub(crate) fn refused(reason: Reason) -> Fact {
    Fact::Refused(Refused {
        reason,
        detail: "as told".to_owned(),
    })
}

pub(crate) fn fenced() -> Fact {
    fenced_with(&fenced_set())
}

pub(crate) fn fenced_with(gtid_set: &str) -> Fact {
    Fact::Fenced(Fenced {
        source_server_uuid: server(IAD),
        gtid_set: gtid_set.to_owned(),
        apply_time: at(1),
        unreachable_peers: Vec::new(),
    })
}

fn step_failed(reason: Reason) -> StepFailed {
    StepFailed {
        reason,
        detail: "as told".to_owned(),
        sent: false,
    }
}

pub(crate) fn fence_failed(reason: Reason) -> Fact {
    Fact::FenceFailed(step_failed(reason))
}

pub(crate) fn drained() -> Fact {
    Fact::Drained(Drained {
        remaining_connections: Some(0),
        killed: 3,
        error: None,
    })
}

pub(crate) fn drain_failed(reason: Reason) -> Fact {
    Fact::DrainFailed(step_failed(reason))
}

pub(crate) fn caught_up() -> Fact {
    caught_up_with(&fenced_set())
}

pub(crate) fn caught_up_with(gtid_executed: &str) -> Fact {
    Fact::CaughtUp(CaughtUp {
        target_server_uuid: server(PDX),
        gtid_executed: gtid_executed.to_owned(),
    })
}

pub(crate) fn catch_up_failed(reason: Reason) -> Fact {
    Fact::CatchUpFailed(step_failed(reason))
}

pub(crate) fn cache_offset(offset: Option<u64>) -> Fact {
    Fact::CacheOffset(CacheOffset { offset })
}

pub(crate) fn cache_synced(target_offset: u64) -> Fact {
    Fact::CacheSynced(CacheSynced { target_offset })
}

pub(crate) fn cache_taken_over() -> Fact {
    Fact::CacheTakenOver(CacheTakenOver {
        target_offset: Some(81_723),
    })
}

pub(crate) fn cache_failed(reason: Reason) -> Fact {
    Fact::CacheFailed(CacheFailed {
        reason,
        detail: "as told".to_owned(),
    })
}

pub(crate) fn promoted() -> Fact {
    promoted_at(9)
}

pub(crate) fn promoted_at(seconds: i64) -> Fact {
    Fact::Promoted(Promoted {
        target_server_uuid: server(PDX),
        confirmation_time: at(seconds),
        unreachable_peers: Vec::new(),
    })
}

pub(crate) fn promotion_failed(reason: Reason, reached: PromotionReach) -> Fact {
    Fact::PromotionFailed(PromotionFailed {
        reason,
        detail: "as told".to_owned(),
        reached,
        ambiguous_sites: Vec::new(),
    })
}

pub(crate) fn restored() -> Fact {
    Fact::TargetRestored(target(true, true))
}

pub(crate) fn target(super_read_only: bool, replicating: bool) -> TargetRestored {
    TargetRestored {
        super_read_only,
        replicating,
        detail: String::new(),
    }
}

pub(crate) fn unfenced() -> Fact {
    Fact::Unfenced(Unfenced {
        source_server_uuid: server(IAD),
        already_writable: false,
        target: target(true, true),
    })
}

pub(crate) fn unfence_failed(cause: UnfenceObstacle) -> Fact {
    Fact::UnfenceFailed(UnfenceFailed {
        cause,
        detail: "as told".to_owned(),
        target_replicating: true,
        ambiguous_sites: Vec::new(),
    })
}

pub(crate) fn published() -> Fact {
    published_dns(None)
}

pub(crate) fn published_dns(dns: Option<StepState>) -> Fact {
    Fact::Published(Published {
        dns,
        dns_error: (dns == Some(StepState::Failed)).then(|| "the zone answers 503".to_owned()),
        label_error: None,
        attempt_time: at(9),
    })
}

/// One fact of each name, all of a plausible run.
pub(crate) fn one_of_each() -> Vec<Fact> {
    vec![
        Fact::Requested(bloodraven_types::fact::Requested { value: PDX.to_owned() }),
        Fact::Cancelled(bloodraven_types::fact::Cancelled {}),
        granted(),
        waiting(WaitReason::PeerUnreadable, "fra does not answer"),
        refused(Reason::TargetUnhealthy),
        fenced(),
        fence_failed(Reason::FenceFailed),
        drained(),
        drain_failed(Reason::SourceLost),
        caught_up(),
        Fact::Lagging(bloodraven_types::fact::Lagging {
            missing_transactions: 7,
        }),
        catch_up_failed(Reason::LagTimeout),
        cache_offset(Some(81_723)),
        cache_synced(81_723),
        cache_taken_over(),
        cache_failed(Reason::DragonflySyncTimeout),
        promoted(),
        promotion_failed(Reason::TargetLost, PromotionReach::NothingWritten),
        restored(),
        unfenced(),
        unfence_failed(UnfenceObstacle::StatementsFailed),
        published(),
    ]
}
