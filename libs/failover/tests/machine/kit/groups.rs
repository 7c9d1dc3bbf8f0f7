//! The group of the tests: `orders` with two candidates, a disaster recovery site and a reader.

use std::collections::BTreeMap;

use bloodraven_types::annotation;
use bloodraven_types::group::{
    DragonflyPlannedFailoverSpec, DragonflySpec, FailoverRecord, PlannedFailoverSpec, SiteSpec, SiteStatus,
};
use bloodraven_types::words::OnSyncTimeout;
use bloodraven_types::{
    Group, GroupKey, GroupSpec, GroupStatus, ObjectUid, ResourceVersion, ServerUuid, SiteName, SiteRole, SiteState,
    Span, Timestamp,
};
use uuid::Uuid;

/// The primary at the beginning.
pub(crate) const IAD: &str = "iad";
/// The candidate that the tests promote.
pub(crate) const PDX: &str = "pdx";
/// The disaster recovery site.
pub(crate) const FRA: &str = "fra";
/// The reader.
pub(crate) const AMS: &str = "ams";

/// So many seconds after 2026-04-20T14:32:00Z.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_776_695_520 + seconds)
}

/// A site's name.
pub(crate) fn site(name: &str) -> SiteName {
    SiteName::new(name)
}

/// The server that a site has at the beginning.
pub(crate) fn server(name: &str) -> ServerUuid {
    let number = match name {
        IAD => 1,
        PDX => 2,
        FRA => 3,
        AMS => 4,
        other => 1000 + u128::try_from(other.len()).unwrap(),
    };
    ServerUuid::new(Uuid::from_u128(number))
}

fn site_spec(name: &str, role: SiteRole) -> SiteSpec {
    SiteSpec {
        name: site(name),
        role,
        host: format!("{name}.example"),
        port: 3306,
        admin_port: None,
        lb_ip: None,
        pod_selector: BTreeMap::new(),
    }
}

fn site_status(name: &str, state: SiteState) -> SiteStatus {
    SiteStatus {
        name: name.to_owned(),
        state,
        server_uuid: Some(server(name)),
        replicating: state == SiteState::ReadOnly,
        ..SiteStatus::default()
    }
}

/// `orders` with `iad` active and everything healthy.
pub(crate) fn orders() -> Group {
    Group {
        key: GroupKey::new("shop", "orders"),
        uid: ObjectUid::new("uid-1"),
        resource_version: ResourceVersion::new("1"),
        generation: 7,
        annotations: BTreeMap::new(),
        spec: GroupSpec {
            sites: vec![
                site_spec(IAD, SiteRole::PrimaryCandidate),
                site_spec(PDX, SiteRole::PrimaryCandidate),
                site_spec(FRA, SiteRole::DisasterRecovery),
                site_spec(AMS, SiteRole::ReadOnly),
            ],
            failover_cooldown: Span::seconds(300),
            poll_interval: Span::seconds(2),
            failure_threshold: 3,
            recovery_threshold: 2,
            planned_failover: PlannedFailoverSpec::default(),
            dragonfly: None,
            dns: None,
        },
        status: GroupStatus {
            active_site: Some(site(IAD)),
            sites: vec![
                site_status(IAD, SiteState::Writable),
                site_status(PDX, SiteState::ReadOnly),
                site_status(FRA, SiteState::ReadOnly),
                site_status(AMS, SiteState::ReadOnly),
            ],
            ..GroupStatus::default()
        },
    }
}

/// Adds a cache with this policy.
pub(crate) fn with_cache(group: &mut Group, on_sync_timeout: OnSyncTimeout) {
    group.spec.dragonfly = Some(DragonflySpec {
        enabled: true,
        planned_failover: DragonflyPlannedFailoverSpec {
            on_sync_timeout,
            ..DragonflyPlannedFailoverSpec::default()
        },
    });
}

/// The status of a site.
pub(crate) fn status_of<'a>(group: &'a mut Group, name: &str) -> &'a mut SiteStatus {
    group.status.sites.iter_mut().find(|site| site.name == name).unwrap()
}

/// The spec of a site.
pub(crate) fn spec_of<'a>(group: &'a mut Group, name: &str) -> &'a mut SiteSpec {
    group
        .spec
        .sites
        .iter_mut()
        .find(|site| site.name.as_str() == name)
        .unwrap()
}

/// A failover to `target`, recorded so many seconds before (negative) or after the tests' beginning, in the status.
pub(crate) fn failed_over(group: &mut Group, target: &str, seconds: i64) {
    group.status.last_failover = Some(FailoverRecord {
        time: at(seconds),
        target: site(target),
        promotion_gtid_executed: None,
    });
}

/// The same, recorded in the annotations.
pub(crate) fn annotate_failover(group: &mut Group, time: &str, target: &str) {
    let record = [
        (annotation::LAST_FAILOVER, time),
        (annotation::LAST_FAILOVER_TARGET, target),
    ];
    for (key, value) in record {
        group.annotations.insert(key.to_owned(), value.to_owned());
    }
}
