//! The durable failover record: the newer of the status' and the annotations' copy.

use bloodraven_types::annotation;
use bloodraven_types::group::FailoverRecord;
use bloodraven_types::record::ClaimBaseline;
use bloodraven_types::{Group, PlannedFailover, SiteName, Timestamp};

/// The largest fenced set that an annotation is to carry, in bytes: Kubernetes bounds all annotations of an object
/// together at 256 KiB (PF-DUR-08, report B07).
pub const WATERMARK_LIMIT: usize = 64 * 1024;

/// No copy of the failover record can be read, though there is one (`InvalidFailoverState`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the failover record cannot be read: {time:?} to {target:?}")]
pub struct InvalidFailoverRecord {
    /// The copy's time.
    pub time: String,
    /// The copy's target.
    pub target: Option<String>,
}

/// The newest valid copy of the failover record.
///
/// An invalid copy, one that cannot be read or names a site that is no longer one, beside a valid one is no change; with
/// no valid copy left this fails.
///
/// # Errors
/// When the only copy there is cannot be read.
pub fn failover_record(group: &Group) -> Result<Option<FailoverRecord>, InvalidFailoverRecord> {
    let in_status = group
        .status
        .last_failover
        .clone()
        .filter(|record| group.site(&record.target).is_some());
    let Some(time) = group.annotation(annotation::LAST_FAILOVER) else {
        return match (in_status, &group.status.last_failover) {
            (None, Some(invalid)) => Err(InvalidFailoverRecord {
                time: invalid.time.to_string(),
                target: Some(invalid.target.to_string()),
            }),
            (in_status, Some(_) | None) => Ok(in_status),
        };
    };
    let target = group.annotation(annotation::LAST_FAILOVER_TARGET);
    match (time.parse::<Timestamp>(), target) {
        (Ok(parsed), Some(site)) if group.site(&SiteName::new(site)).is_some() => {
            let record = FailoverRecord {
                time: parsed,
                target: SiteName::new(site),
                promotion_gtid_executed: group.annotation(annotation::LAST_FAILOVER_WATERMARK).map(str::to_owned),
            };
            Ok(match in_status {
                Some(status) if status.time >= record.time => Some(status),
                Some(_) | None => Some(record),
            })
        }
        (Ok(_) | Err(_), _) if in_status.is_some() => Ok(in_status),
        (Ok(_) | Err(_), _) => Err(InvalidFailoverRecord {
            time: time.to_owned(),
            target: target.map(str::to_owned),
        }),
    }
}

/// Whether the durable record is this run's own, recognised by content: its target, its fenced set as the watermark, and a
/// time not before its promotion intent (PF-CLM-06).
pub fn is_own(run: &PlannedFailover, record: &FailoverRecord) -> bool {
    let Some(promotion) = &run.promotion else { return false };
    let fenced = run.fence.as_ref().and_then(|fence| fence.gtid_set.as_deref());
    record.target == run.target_site
        && record.time >= promotion.intent_time
        && watermark(fenced.unwrap_or_default()).as_deref() == record.promotion_gtid_executed.as_deref()
}

/// The baseline that a claim taken now is to remember.
///
/// # Errors
/// When the only copy there is cannot be read.
pub fn baseline(group: &Group) -> Result<ClaimBaseline, InvalidFailoverRecord> {
    let record = failover_record(group)?;
    Ok(ClaimBaseline {
        time: record.as_ref().map(|record| record.time.whole_seconds()),
        target: record.map(|record| record.target),
    })
}

/// Whether nobody else recorded a failover since the run took its claim: the durable record is the claim's baseline or
/// the run's own promotion. A record that cannot be read proves nothing, so it counts as another one (PF-CLM-05).
pub fn authority_holds(group: &Group, run: &PlannedFailover) -> bool {
    let own = || matches!(failover_record(group), Ok(Some(record)) if is_own(run, &record));
    baseline(group).is_ok_and(|now| run.claim_baseline.as_ref().is_none_or(|then| *then == now)) || own()
}

/// The watermark as an annotation can carry it; a set over the limit has none.
pub fn watermark(gtid_set: &str) -> Option<String> {
    (gtid_set.len() <= WATERMARK_LIMIT).then(|| gtid_set.to_owned())
}
