//! What the probes of all sites say together.

use bloodraven_failover::topology::{Convergence, active_site, convergence};
use bloodraven_types::SiteState;
use bloodraven_types::words::{ConvergenceReason, ConvergenceState};

use crate::kit::{AMS, FRA, IAD, PDX, groups, server, site};

/// The active site is the unique writable candidate: a second writable site of any role, or a writable site of another role,
/// leaves it empty.
#[test]
fn the_active_site_is_the_unique_writable_candidate() {
    let mut group = groups::orders();
    let active = |group: &bloodraven_types::Group| active_site(group, &group.status.sites);
    assert_eq!(active(&group), Some(site(IAD)));
    for second in [PDX, FRA, AMS] {
        let mut group = group.clone();
        groups::status_of(&mut group, second).state = SiteState::Writable;
        assert_eq!(active(&group), None, "{second} too");
        groups::status_of(&mut group, IAD).state = SiteState::ReadOnly;
        let alone = (second == PDX).then(|| site(PDX));
        assert_eq!(active(&group), alone, "{second} alone");
    }
    groups::status_of(&mut group, IAD).state = SiteState::Unreachable;
    assert_eq!(active(&group), None);
}

/// A follower that holds what the primary does not is blocked, one that follows is done, any other is re-pointed.
/// spec: PF-TOP-04
#[test]
fn a_follower_converges_on_the_primary() {
    let set = |text: String| text.parse().unwrap();
    let primary = set(format!("{}:1-10", server(IAD)));
    let behind = set(format!("{}:1-7", server(IAD)));
    let diverged = set(format!("{}:1-7,{}:1", server(IAD), server(FRA)));
    let done = Convergence::Done(ConvergenceState::Converged, ConvergenceReason::DirectSource);
    let blocked = Convergence::Done(ConvergenceState::Blocked, ConvergenceReason::GTIDDiverged);
    assert_eq!(convergence(&behind, &primary, true, true), done);
    assert_eq!(convergence(&behind, &primary, true, false), Convergence::Repoint);
    assert_eq!(
        convergence(&behind, &primary, false, true),
        Convergence::Repoint,
        "a chained source, though its threads run"
    );
    for (follows, running) in [(true, true), (true, false), (false, true), (false, false)] {
        assert_eq!(convergence(&diverged, &primary, follows, running), blocked);
    }
}
