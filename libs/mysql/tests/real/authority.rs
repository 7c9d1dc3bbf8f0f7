//! Authority over a server's role belongs to one session at a time.

use bloodraven_ports::{DatabaseError, DatabaseSession as _};
use mysql_async::prelude::Queryable as _;

use crate::fixture::{SOURCE, eventually, is_listed, one_server, read_only, root, session};

/// A session that holds the authority and stalls is ended by the next one; when it wakes up its statement fails and the
/// role stays as it was; `spec: X-AUTH-01`.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_holder_cannot_change_a_role() {
    let lab = one_server("authority").await;
    let mut admin = root(&lab, SOURCE).await;
    let mut stalled = session(&lab, SOURCE).await;
    assert_eq!(stalled.take_authority().await.unwrap().ended, None);
    stalled.set_super_read_only().await.unwrap();
    let stalled_id = stalled.connection_id();

    // Here the old holder sleeps, and somebody else is given the claim.
    let mut next = session(&lab, SOURCE).await;
    let taken = next.take_authority().await.unwrap();

    assert_eq!(taken.ended, Some(stalled_id));
    assert!(!is_listed(&mut admin, stalled_id).await);
    let late = stalled.open_for_writes().await;
    assert!(matches!(late, Err(DatabaseError::Killed { .. })), "{late:?}");
    assert_eq!(read_only(&mut admin).await, (true, true));
    let later_still = stalled.open_for_writes().await;
    assert!(
        matches!(later_still, Err(DatabaseError::Unreachable { .. })),
        "{later_still:?}"
    );
    assert_eq!(read_only(&mut admin).await, (true, true));
    // The new holder was not hurt by the old one's end.
    assert_eq!(next.take_authority().await.unwrap().ended, None);
    next.open_for_writes().await.unwrap();
    assert_eq!(read_only(&mut admin).await, (false, false));
}

/// Authority that was given back, even if it was taken twice, or whose session was closed, is free.
#[tokio::test(flavor = "multi_thread")]
async fn authority_is_given_back() {
    let lab = one_server("authority-back").await;
    let mut first = session(&lab, SOURCE).await;
    let mut second = session(&lab, SOURCE).await;
    first.take_authority().await.unwrap();
    first.take_authority().await.unwrap();
    first.release_authority().await.unwrap();
    assert_eq!(second.take_authority().await.unwrap().ended, None);
    let id = second.connection_id();
    second.close().await;
    let mut admin = root(&lab, SOURCE).await;
    eventually("the closed session is gone", async || !is_listed(&mut admin, id).await).await;
    assert_eq!(first.take_authority().await.unwrap().ended, None);
    first.release_authority().await.unwrap();
    first.release_authority().await.unwrap();
}

/// A holder that may not be ended keeps the authority, and the caller learns who it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_may_not_be_ended_keeps_the_authority() {
    let lab = one_server("authority-held").await;
    let mut admin = root(&lab, SOURCE).await;
    // The account `root` has SYSTEM_USER, and ours has not.
    let taken: Option<u8> = admin
        .query_first("SELECT GET_LOCK('bloodraven.authority', 0)")
        .await
        .unwrap();
    assert_eq!(taken, Some(1));
    let mut session = session(&lab, SOURCE).await;
    let holder = u64::from(admin.id());
    let outcome = session.take_authority().await;
    assert_eq!(
        outcome,
        Err(DatabaseError::AuthorityHeld {
            site: SOURCE.into(),
            holder
        })
    );
    // The session itself is none the worse.
    session.observe().await.unwrap();
    admin
        .query_drop("DO RELEASE_LOCK('bloodraven.authority')")
        .await
        .unwrap();
    assert_eq!(session.take_authority().await.unwrap().ended, None);
}
