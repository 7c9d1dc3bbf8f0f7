//! The judgements on live evidence: whether the claim can be granted, whether the gate opens, what a re-run found.
//!
//! Each takes what the servers answered and says what follows. Nothing here asks anybody.

use std::collections::BTreeMap;

use bloodraven_gtid::GtidSet;
use bloodraven_types::fact::{Granted, Waiting};
use bloodraven_types::group::SiteSpec;
use bloodraven_types::observation::ServerObservation;
use bloodraven_types::{Group, Reason, ServerUuid, SiteName, SiteRole, WaitReason};

/// What one site answered; the text says why when it did not.
pub type Answer = Result<ServerObservation, String>;

/// What the sites answered.
pub type Answers = BTreeMap<SiteName, Answer>;

/// What the claim's probes come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The claim can be taken.
    Granted(Granted),
    /// Not yet.
    Waiting(Waiting),
}

/// Judges the claim's probes (PF-ADM-11, PF-ADM-13, PF-ADM-14).
pub fn grant(group: &Group, target: &SiteName, answers: &Answers) -> Grant {
    match try_grant(group, target, answers) {
        Ok(granted) => Grant::Granted(granted),
        Err((reason, detail)) => Grant::Waiting(Waiting { reason, detail }),
    }
}

fn try_grant(group: &Group, target: &SiteName, answers: &Answers) -> Result<Granted, (WaitReason, String)> {
    let writable: Vec<&SiteSpec> = group
        .spec
        .sites
        .iter()
        .filter(|site| answered(answers, &site.name).is_some_and(ServerObservation::is_writable))
        .collect();
    let source = match writable.as_slice() {
        [] => return Err(no_source(group, target, answers)),
        [only] if only.name == *target => {
            return Err((
                WaitReason::AuthorityUnsettled,
                format!("the target \"{target}\" reads writable"),
            ));
        }
        [only] => *only,
        several => {
            let names = several
                .iter()
                .map(|site| site.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            return Err((
                WaitReason::AuthorityUnsettled,
                format!("more than one site reads writable: {names}"),
            ));
        }
    };
    if source.role != SiteRole::PrimaryCandidate {
        let detail = format!("the writable site \"{}\" is no PrimaryCandidate", source.name);
        return Err((WaitReason::AuthorityUnsettled, detail));
    }
    let Some(source_answer) = answered(answers, &source.name) else {
        return Err(no_source(group, target, answers));
    };
    if !source_answer.serves_writes() {
        let detail = format!("the source \"{}\" refuses application writes", source.name);
        return Err((WaitReason::AuthorityUnsettled, detail));
    }
    for site in group
        .spec
        .sites
        .iter()
        .filter(|site| site.role.must_answer() && site.name != *target)
    {
        let problem = match answers.get(&site.name) {
            Some(Ok(_)) => continue,
            Some(Err(error)) => format!("does not answer: {error}"),
            None => "was not probed".to_owned(),
        };
        return Err((WaitReason::PeerUnreadable, format!("site \"{}\" {problem}", site.name)));
    }
    let target_answer = target_ready(target, answers, source_answer)?;
    distinct_servers(answers)?;
    Ok(Granted {
        source: source.name.clone(),
        source_server_uuid: source_answer.server_uuid,
        target_server_uuid: target_answer.server_uuid,
        unreachable_readers: silent_readers(group, answers),
    })
}

fn no_source(group: &Group, target: &SiteName, answers: &Answers) -> (WaitReason, String) {
    let silent = group.spec.sites.iter().find(|site| {
        site.role.must_answer() && site.name != *target && answers.get(&site.name).is_some_and(Result::is_err)
    });
    match silent {
        Some(site) => (
            WaitReason::PeerUnreadable,
            format!("site \"{}\" does not answer", site.name),
        ),
        None => (WaitReason::AuthorityUnsettled, "no site reads writable".to_owned()),
    }
}

/// The target is a read-only replica of the source with both threads running and no error (PF-ADM-11, reports B27, B28, B33).
fn target_ready<'a>(
    target: &SiteName,
    answers: &'a Answers,
    source: &ServerObservation,
) -> Result<&'a ServerObservation, (WaitReason, String)> {
    let not_ready = |detail: String| (WaitReason::TargetNotReady, format!("target \"{target}\" {detail}"));
    let answer = match answers.get(target) {
        Some(Ok(answer)) => answer,
        Some(Err(error)) => return Err(not_ready(format!("does not answer: {error}"))),
        None => return Err(not_ready("was not probed".to_owned())),
    };
    let [channel] = answer.channels.as_slice() else {
        return Err(not_ready(format!(
            "has {} replication channels, not one",
            answer.channels.len()
        )));
    };
    if let Some(error) = &channel.sql_error {
        return Err(not_ready(format!("has an applier error: {error}")));
    }
    if !channel.is_running() {
        let error = channel
            .io_error
            .as_ref()
            .map(|error| format!(": {error}"))
            .unwrap_or_default();
        let threads = (channel.io_running, channel.sql_running);
        return Err(not_ready(format!(
            "does not run both replication threads (IO, SQL) = {threads:?}{error}"
        )));
    }
    if channel.delay_seconds > 0 {
        return Err(not_ready(format!(
            "applies with a delay of {}s (SOURCE_DELAY), which the write outage would last",
            channel.delay_seconds
        )));
    }
    if channel.source_uuid != Some(source.server_uuid) {
        let followed = channel
            .source_uuid
            .map_or_else(|| "no known server".to_owned(), |uuid| uuid.to_string());
        return Err(not_ready(format!(
            "follows {followed}, not the source {}",
            source.server_uuid
        )));
    }
    Ok(answer)
}

/// Two sites with one server UUID cannot be told apart (report B73).
fn distinct_servers(answers: &Answers) -> Result<(), (WaitReason, String)> {
    let mut seen: BTreeMap<ServerUuid, &SiteName> = BTreeMap::new();
    for (site, answer) in answers {
        let Ok(answer) = answer else { continue };
        if let Some(other) = seen.insert(answer.server_uuid, site) {
            let detail = format!(
                "sites \"{other}\" and \"{site}\" have the same server UUID {}",
                answer.server_uuid
            );
            return Err((WaitReason::AuthorityUnsettled, detail));
        }
    }
    Ok(())
}

fn silent_readers(group: &Group, answers: &Answers) -> Vec<SiteName> {
    let silent = |site: &&SiteSpec| !site.role.must_answer() && answers.get(&site.name).is_some_and(Result::is_err);
    group
        .spec
        .sites
        .iter()
        .filter(silent)
        .map(|site| site.name.clone())
        .collect()
}

fn answered<'a>(answers: &'a Answers, site: &SiteName) -> Option<&'a ServerObservation> {
    answers.get(site).and_then(|answer| answer.as_ref().ok())
}

/// What the peers of a run answered. Peers are all sites but those named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Peers that answered writable.
    pub writable: Vec<SiteName>,
    /// Peers that must answer and did not, with the error.
    pub unreadable: Vec<(SiteName, String)>,
    /// Readers that did not answer.
    pub silent_readers: Vec<SiteName>,
}

/// Sorts the answers of every site but `except`.
pub fn peers(group: &Group, except: &[&SiteName], answers: &Answers) -> Peers {
    let mut peers = Peers::default();
    for site in group.spec.sites.iter().filter(|site| !except.contains(&&site.name)) {
        match answers.get(&site.name) {
            Some(Ok(answer)) if answer.is_writable() => peers.writable.push(site.name.clone()),
            Some(Ok(_)) => {}
            Some(Err(error)) if site.role.must_answer() => peers.unreadable.push((site.name.clone(), error.clone())),
            None if site.role.must_answer() => peers.unreadable.push((site.name.clone(), "not probed".to_owned())),
            Some(Err(_)) | None => peers.silent_readers.push(site.name.clone()),
        }
    }
    peers
}

/// The servers and the set that a promotion is bound to.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'a> {
    /// The fenced server.
    pub source_server_uuid: ServerUuid,
    /// The server to promote.
    pub target_server_uuid: ServerUuid,
    /// The fenced set.
    pub fenced: &'a GtidSet,
}

/// How far an interrupted promotion got on the target, as its live state shows (PF-PRO-06).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// Another server, or a set that the run cannot have made: nothing was written by the run.
    Changed {
        /// Why.
        reason: Reason,
        /// What exactly.
        detail: String,
    },
    /// Read-only and still a replica: `STOP REPLICA` and `RESET REPLICA ALL` are next.
    Replica,
    /// Read-only, without a channel, holding exactly the fenced set: the gate is next.
    Detached,
    /// Writable without a channel, holding the fenced set and nothing but its own transactions beyond it.
    Opened,
    /// Writable in a way that the run cannot explain.
    Unexplained {
        /// What exactly.
        detail: String,
    },
}

/// Classifies the target from one live read.
pub fn target_state(target: &ServerObservation, bound: Bound<'_>) -> TargetState {
    if target.server_uuid != bound.target_server_uuid {
        return TargetState::Changed {
            reason: Reason::TargetChanged,
            detail: format!(
                "the target is server {}, not {}",
                target.server_uuid, bound.target_server_uuid
            ),
        };
    }
    let Ok(executed) = target.gtid_executed.parse::<GtidSet>() else {
        let detail = format!("the target's set cannot be parsed: {:?}", target.gtid_executed);
        return TargetState::Changed {
            reason: Reason::InvalidGTID,
            detail,
        };
    };
    if target.is_writable() {
        return writable_state(target, &executed, bound);
    }
    if !executed.contains(bound.fenced) {
        let missing = bound.fenced.subtract(&executed);
        let detail = format!(
            "the target lacks {} transactions of the fenced set: {missing}",
            missing.count()
        );
        return TargetState::Changed {
            reason: Reason::TargetChanged,
            detail,
        };
    }
    let extra = executed.subtract(bound.fenced);
    if !extra.is_empty() {
        let detail = format!(
            "the target holds {} transactions outside the fenced set: {extra}",
            extra.count()
        );
        return TargetState::Changed {
            reason: Reason::DivergentTarget,
            detail,
        };
    }
    if target.channels.is_empty() {
        TargetState::Detached
    } else {
        TargetState::Replica
    }
}

fn writable_state(target: &ServerObservation, executed: &GtidSet, bound: Bound<'_>) -> TargetState {
    if !target.channels.is_empty() {
        return TargetState::Unexplained {
            detail: "the target is writable and still has a replication channel".to_owned(),
        };
    }
    if !executed.contains(bound.fenced) {
        return TargetState::Unexplained {
            detail: "the target is writable and lacks transactions of the fenced set".to_owned(),
        };
    }
    let foreign = executed
        .subtract(bound.fenced)
        .without(bound.target_server_uuid.as_uuid());
    if !foreign.is_empty() {
        let detail = format!(
            "the target is writable and holds {} transactions of others: {foreign}",
            foreign.count()
        );
        return TargetState::Unexplained { detail };
    }
    TargetState::Opened
}

/// Why the gate stays shut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateShut {
    /// Why.
    pub reason: Reason,
    /// What exactly.
    pub detail: String,
    /// Sites that answered writable or could not be read.
    pub ambiguous_sites: Vec<SiteName>,
    /// Whether another look may help within its window: a silent server.
    pub transient: bool,
}

/// The pre-write gate: every line of evidence, immediately before the target is opened (PF-PRO-02).
///
/// `answers` holds the source and all peers; `target` is the pinned session's own read.
///
/// # Errors
/// Says which line does not hold.
pub fn gate(
    group: &Group,
    sites: (&SiteName, &SiteName),
    bound: Bound<'_>,
    target: &ServerObservation,
    answers: &Answers,
) -> Result<Peers, GateShut> {
    let (source_site, target_site) = sites;
    promotable(group, target_site)?;
    let shut = |reason, detail: String| GateShut {
        reason,
        detail,
        ambiguous_sites: Vec::new(),
        transient: false,
    };
    match target_state(target, bound) {
        TargetState::Detached | TargetState::Opened => {}
        TargetState::Replica => {
            return Err(shut(
                Reason::TargetChanged,
                "the target has a replication channel again".to_owned(),
            ));
        }
        TargetState::Changed { reason, detail } => return Err(shut(reason, detail)),
        TargetState::Unexplained { detail } => return Err(shut(Reason::ExecuteFailed, detail)),
    }
    source_holds(source_site, bound, answers)?;
    let peers = peers(group, &[source_site, target_site], answers);
    if !peers.writable.is_empty() {
        let names = peers
            .writable
            .iter()
            .map(SiteName::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        let detail = format!("another site answers writable: {names}");
        return Err(GateShut {
            ambiguous_sites: peers.writable,
            ..shut(Reason::ForeignWritable, detail)
        });
    }
    if let Some((site, error)) = peers.unreadable.first() {
        let detail = format!("site \"{site}\" does not answer: {error}");
        let ambiguous_sites = peers.unreadable.iter().map(|(site, _)| site.clone()).collect();
        return Err(GateShut {
            ambiguous_sites,
            transient: true,
            ..shut(Reason::PeerUnreadable, detail)
        });
    }
    Ok(peers)
}

/// The target's role in the current spec (PF-PRO-05).
///
/// # Errors
/// When it is no PrimaryCandidate any more.
pub fn promotable(group: &Group, target: &SiteName) -> Result<(), GateShut> {
    match group.site(target).map(|site| site.role) {
        Some(SiteRole::PrimaryCandidate) => Ok(()),
        Some(SiteRole::DisasterRecovery | SiteRole::ReadOnly) | None => Err(GateShut {
            reason: Reason::TargetNotPromotable,
            detail: format!("site \"{target}\" is no PrimaryCandidate in the current spec"),
            ambiguous_sites: Vec::new(),
            transient: false,
        }),
    }
}

fn source_holds(site: &SiteName, bound: Bound<'_>, answers: &Answers) -> Result<(), GateShut> {
    let shut = |reason, detail: String, transient| GateShut {
        reason,
        detail,
        ambiguous_sites: vec![site.clone()],
        transient,
    };
    let source = match answers.get(site) {
        Some(Ok(source)) => source,
        Some(Err(error)) => {
            return Err(shut(
                Reason::SourceLost,
                format!("the source \"{site}\" does not answer: {error}"),
                true,
            ));
        }
        None => {
            return Err(shut(
                Reason::SourceLost,
                format!("the source \"{site}\" was not probed"),
                true,
            ));
        }
    };
    if source.server_uuid != bound.source_server_uuid {
        let detail = format!(
            "the source is server {}, not {}",
            source.server_uuid, bound.source_server_uuid
        );
        return Err(shut(Reason::AuthorityChanged, detail, false));
    }
    if !source.is_fenced() {
        return Err(shut(
            Reason::SourceUnfenced,
            format!("the source \"{site}\" is no longer read-only"),
            false,
        ));
    }
    let Ok(executed) = source.gtid_executed.parse::<GtidSet>() else {
        return Err(shut(
            Reason::InvalidGTID,
            "the source's set cannot be parsed".to_owned(),
            false,
        ));
    };
    // What the target wrote itself and the source got back by replication is no write past the fence.
    let past = executed
        .subtract(bound.fenced)
        .without(bound.target_server_uuid.as_uuid());
    if past.is_empty() {
        return Ok(());
    }
    let detail = format!(
        "the source holds {} transactions past the fenced set: {past}",
        past.count()
    );
    Err(shut(Reason::AuthorityChanged, detail, false))
}
