//! Every deadline of a planned run, each counted from a time on the record (reference, "Deadlines").

use std::time::Duration;

/// From entering `Admitting` to `AdmissionTimeout` (PF-ADM-04).
pub const ADMISSION: Duration = Duration::from_secs(120);
/// From `fence.intentTime` to `FenceFailed` (PF-FEN-03).
pub const FENCE: Duration = Duration::from_secs(30);
/// How long a site may be silent before it counts as lost (PF-LOS-01, PF-LOS-02).
pub const LOSS_WINDOW: Duration = Duration::from_secs(10);
/// From `promotion.intentTime` to `PromotionAborted` or `PromotionUnconfirmed` (PF-PRO-07, PF-PRO-08).
pub const PROMOTION: Duration = Duration::from_secs(120);
/// From `rollback.intentTime` to `SourceLeftFenced` (PF-RBK-01).
pub const ROLLBACK: Duration = Duration::from_secs(30);
/// How long the cache takeover may wait for its gates, beside `maxSyncWait` (PF-DFY-07).
pub const CACHE_GATES: Duration = Duration::from_secs(40);
/// How long the reply of a cache takeover may take beyond its own timeout (PF-DFY-03).
pub const CACHE_REPLY: Duration = Duration::from_secs(12);
/// A new request waits, unvalidated, for a failover recorded this recently elsewhere (PF-ADM-10).
pub const UNSETTLED_AFTER_FAILOVER: Duration = Duration::from_secs(120);
/// How much longer than an executor the record keeper waits before it ends a step by itself: the executor knows
/// better what happened, so it is given the time to say so. One bus hop and one statement timeout, rounded up.
pub const KEEPER_GRACE: Duration = Duration::from_secs(3);
