//! Publication: which role each site's pods carry.

use std::time::Duration;

use bloodraven_failover::roles::{PublishedRole, published_primary, published_roles};
use bloodraven_types::Phase;
use bloodraven_types::fact::PromotionReach::MayBeWritable;
use bloodraven_types::{Reason, SiteName, SiteState};

use crate::kit::{AMS, FRA, IAD, PDX, World, facts, groups, site};
use PublishedRole::{Fenced, Primary, Replica};

fn of(world: &World) -> Vec<(String, PublishedRole)> {
    published_roles(&world.group)
        .into_iter()
        .map(|(site, role)| (site.to_string(), role))
        .collect()
}

fn roles(iad: PublishedRole, pdx: PublishedRole) -> Vec<(String, PublishedRole)> {
    [(AMS, Replica), (FRA, Replica), (IAD, iad), (PDX, pdx)]
        .into_iter()
        .map(|(name, role)| (name.to_owned(), role))
        .collect()
}

/// The source is shed from its fence's intent on; the target leads only once its promotion is recorded.
/// spec: PF-FEN-02, PF-PUB-01
#[test]
fn the_source_is_shed_at_once_and_the_target_leads_once_it_is_recorded() {
    for phase in [Phase::Admitting, Phase::Deferred, Phase::Failed] {
        assert_eq!(of(&World::at_phase(phase)), roles(Primary, Replica), "{phase}");
    }
    for phase in [
        Phase::Fencing,
        Phase::Draining,
        Phase::WaitingForLag,
        Phase::WaitingForDragonflySync,
        Phase::PromotingDragonfly,
        Phase::Promoting,
        Phase::RollingBack,
    ] {
        let world = World::at_phase(phase);
        assert_eq!(of(&world), roles(Fenced, Replica), "{phase}");
        assert_eq!(published_primary(&world.group), None, "{phase}");
    }
    let mut world = World::at_phase(Phase::Promoting);
    world.one_write(world.input_of(facts::promoted())).unwrap();
    assert_eq!(of(&world), roles(Fenced, Primary), "recorded");
    world.one_write(world.input_of(facts::published())).unwrap();
    assert_eq!(of(&world), roles(Replica, Primary), "released");
    assert_eq!(of(&World::at_phase(Phase::Publishing)), roles(Replica, Primary));
}

/// After a rollback the source leads again, whether or not it was looked at since; a second writer leaves that to the
/// observation. spec: PF-RBK-07
#[test]
fn a_rollback_gives_the_role_back() {
    let mut world = World::at_phase(Phase::RollingBack);
    world.group.status.active_site = None;
    world.tell(facts::unfenced());
    assert_eq!(of(&world), roles(Primary, Replica));
    groups::status_of(&mut world.group, PDX).state = SiteState::Writable;
    assert!(of(&world).is_empty());
}

/// An observation from before the end of a run does not take the role from the target again, however late the next one
/// comes; one from after it counts, whatever it says. spec: PF-PUB-01
#[test]
fn an_older_observation_takes_no_role_back() {
    let mut world = World::at_phase(Phase::Succeeded);
    let promoted = world.group.status.last_failover.clone().unwrap().time;
    assert_eq!(
        world.group.status.active_site,
        Some(site(IAD)),
        "as it was seen before the run"
    );
    for seen in [None, Some(promoted)] {
        for known in [IAD, PDX, FRA, AMS] {
            groups::status_of(&mut world.group, known).last_seen = seen;
        }
        assert_eq!(of(&world), roles(Replica, Primary), "{seen:?}");
        let mut unsettled = world.clone();
        unsettled.group.status.active_site = None;
        assert_eq!(of(&unsettled), roles(Replica, Primary), "{seen:?}");
    }
    groups::status_of(&mut world.group, PDX).last_seen = Some(promoted.after(Duration::from_secs(1)));
    assert_eq!(of(&world), roles(Primary, Replica), "somebody moved the role by hand");
    world.group.status.active_site = None;
    assert!(of(&world).is_empty());
}

/// After the end, and without a run, the roles follow the active site.
#[test]
fn at_rest_the_roles_follow_the_active_site() {
    let mut world = World::at_phase(Phase::Succeeded);
    world.group.status.active_site = Some(site(PDX));
    assert_eq!(of(&world), roles(Replica, Primary));
    assert_eq!(of(&World::orders()), roles(Primary, Replica));
}

/// Where nobody is known to lead and no run moves the role, the labels are left as they are.
#[test]
fn without_a_primary_nothing_is_said() {
    let mut world = World::orders();
    world.group.status.active_site = None;
    assert!(of(&world).is_empty());
    let mut world = World::at_phase(Phase::Promoting);
    world.tell(facts::promotion_failed(Reason::TargetLost, MayBeWritable));
    world.group.status.active_site = None;
    assert!(of(&world).is_empty());
}

/// Publication is a function of the object alone: what a restarted publisher reads gives the same roles.
/// spec: PF-DUR-12
#[test]
fn publication_is_a_function_of_the_object() {
    for phase in Phase::ALL.iter().copied() {
        let world = World::at_phase(phase);
        let mut read = groups::orders();
        read.annotations = world.group.annotations.clone();
        read.spec = world.group.spec.clone();
        read.status = serde_json::from_value(serde_json::to_value(&world.group.status).unwrap()).unwrap();
        assert_eq!(published_roles(&read), published_roles(&world.group), "{phase}");
    }
}

/// There is never more than one primary, and it is a site of the spec.
#[test]
fn there_is_at_most_one_primary() {
    for phase in Phase::ALL.iter().copied() {
        let world = World::at_phase(phase);
        let primaries: Vec<SiteName> = published_roles(&world.group)
            .into_iter()
            .filter(|(_, role)| *role == Primary)
            .map(|(site, _)| site)
            .collect();
        assert!(primaries.len() <= 1, "{phase}: {primaries:?}");
        assert_eq!(primaries.first(), published_primary(&world.group), "{phase}");
    }
}
