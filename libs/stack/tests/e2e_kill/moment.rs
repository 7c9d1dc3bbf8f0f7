//! The moments of a run at which a process is killed, and how a run is held at each until that is done.

use std::fmt;
use std::time::Duration;

use bloodraven_messages::latest::{Payload, SubjectFilter, decode};
use bloodraven_stack::{Asked, Program, Stack};
use bloodraven_types::annotation::LAST_FAILOVER_TARGET;
use bloodraven_types::{Group, Outcome, Phase};
use futures::StreamExt;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::gate::{Held, Stop};
use crate::scene::{Failure, Scene, failure};

/// How long a record may take to be announced.
const RECORD_BUDGET: Duration = Duration::from_secs(20);
/// What only the claim's probes ask for.
const LOOK_FOR_BLOCKERS: &str = "LEFT(info, 4096)";
const FENCE: &str = "SET GLOBAL super_read_only = ON";
const OPEN: &str = "SET GLOBAL super_read_only = OFF";

/// A moment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The request is about to be made.
    Asking,
    /// `Admitting`: the claim's probes are under way.
    Admitting,
    /// `Fencing`: the fence is about to be applied.
    Fencing,
    /// `Fencing`: the fence is applied, and nobody has heard of it (PF-FEN-05).
    Fenced,
    /// `Draining`: the first session is about to be ended.
    Draining,
    /// `WaitingForLag`: the target's server waits.
    WaitingForLag,
    /// `Promoting`: the target is about to be opened.
    Promoting,
    /// `Promoting`: the target is open, and nobody has heard of it (PF-PRO-06).
    Opened,
    /// The promotion is confirmed and recorded; the publisher has not taken up its order.
    Recorded,
    /// `Publishing`: its record has just been announced.
    Publishing,
    /// `Succeeded`: its record has just been announced, and the run's annotations are still to go.
    Ended,
    /// `RollingBack` before a promotion: the source is about to be unfenced.
    RollingBack,
    /// `RollingBack`: the source is unfenced, and nobody has heard of it.
    Unfenced,
    /// `RollingBack` after a promotion was intended: the target is about to be started as a replica.
    Restoring,
}

/// What keeps a run where it is. Dropped, everything goes on but a frozen publisher, which [`Hold::release`] takes care of.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    statement: Option<Held>,
    session: Option<Conn>,
    publisher: bool,
}

impl Moment {
    /// What is appended to the target in the annotation.
    const fn parameters(self) -> &'static str {
        match self {
            Self::RollingBack | Self::Unfenced => ":maxLagWait=1s",
            Self::Asking
            | Self::Admitting
            | Self::Fencing
            | Self::Fenced
            | Self::Draining
            | Self::WaitingForLag
            | Self::Promoting
            | Self::Opened
            | Self::Recorded
            | Self::Publishing
            | Self::Ended
            | Self::Restoring => "",
        }
    }

    /// How a run that is disturbed at this moment has to end: as if it had not been.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::RollingBack | Self::Unfenced | Self::Restoring => Outcome::RolledBack,
            Self::Asking
            | Self::Admitting
            | Self::Fencing
            | Self::Fenced
            | Self::Draining
            | Self::WaitingForLag
            | Self::Promoting
            | Self::Opened
            | Self::Recorded
            | Self::Publishing
            | Self::Ended => Outcome::Succeeded,
        }
    }

    /// The record's phase at this moment; none before there is a record.
    pub(crate) const fn phase(self) -> Option<Phase> {
        match self {
            Self::Asking => None,
            Self::Admitting => Some(Phase::Admitting),
            Self::Fencing | Self::Fenced => Some(Phase::Fencing),
            Self::Draining => Some(Phase::Draining),
            Self::WaitingForLag => Some(Phase::WaitingForLag),
            Self::Promoting | Self::Opened | Self::Recorded => Some(Phase::Promoting),
            Self::Publishing => Some(Phase::Publishing),
            Self::Ended => Some(Phase::Succeeded),
            Self::RollingBack | Self::Unfenced | Self::Restoring => Some(Phase::RollingBack),
        }
    }

    /// Asks for a failover and returns when the run has reached the moment, held there.
    pub(crate) async fn reach(self, scene: &Scene<'_>) -> Result<(Asked, Hold), Failure> {
        match self {
            Self::Asking => Ok((scene.stack.about_to_ask().await?, Hold::default())),
            Self::Recorded => self.reach_recorded(scene).await,
            Self::Publishing | Self::Ended => self.reach_record(scene).await,
            Self::Restoring => self.reach_restoring(scene).await,
            Self::Admitting
            | Self::Fencing
            | Self::Fenced
            | Self::Draining
            | Self::WaitingForLag
            | Self::Promoting
            | Self::Opened
            | Self::RollingBack
            | Self::Unfenced => self.reach_statement(scene).await,
        }
    }

    async fn reach_statement(self, scene: &Scene<'_>) -> Result<(Asked, Hold), Failure> {
        let mut hold = Hold::default();
        match self {
            // Nobody but root can end a session of root, so there is always one to try.
            Self::Draining => hold.session = Some(scene.stack.lab().mysql(&scene.source).await?),
            Self::WaitingForLag | Self::RollingBack | Self::Unfenced => hold.session = Some(stop_applier(scene).await?),
            Self::Asking
            | Self::Admitting
            | Self::Fencing
            | Self::Fenced
            | Self::Promoting
            | Self::Opened
            | Self::Recorded
            | Self::Publishing
            | Self::Ended
            | Self::Restoring => {}
        }
        let (site, text, stop) = self
            .statement(scene)
            .ok_or("no statement is waited for at this moment")?;
        let mut statement = scene.gate(site)?.stop_next(text, stop);
        let asked = self.ask(scene).await?;
        statement.reached().await?;
        hold.statement = Some(statement);
        Ok((asked, hold))
    }

    /// On which site which statement is stopped where.
    fn statement<'a>(self, scene: &'a Scene<'_>) -> Option<(&'a str, &'static str, Stop)> {
        let (source, target) = (scene.source.as_str(), scene.target.as_str());
        match self {
            Self::Admitting => Some((source, LOOK_FOR_BLOCKERS, Stop::Before)),
            Self::Fencing => Some((source, FENCE, Stop::Before)),
            Self::Fenced => Some((source, FENCE, Stop::After)),
            Self::Draining => Some((source, "KILL CONNECTION", Stop::Before)),
            Self::WaitingForLag => Some((target, "WAIT_FOR_EXECUTED_GTID_SET", Stop::Nowhere)),
            Self::Promoting => Some((target, OPEN, Stop::Before)),
            Self::Opened => Some((target, OPEN, Stop::After)),
            Self::RollingBack => Some((source, OPEN, Stop::Before)),
            Self::Unfenced => Some((source, OPEN, Stop::After)),
            Self::Restoring => Some((target, "START REPLICA", Stop::Before)),
            Self::Asking | Self::Recorded | Self::Publishing | Self::Ended => None,
        }
    }

    /// A frozen publisher leaves the run between the promotion's record and its publication.
    async fn reach_recorded(self, scene: &Scene<'_>) -> Result<(Asked, Hold), Failure> {
        scene.stack.pause(Program::Publisher)?;
        let asked = self.ask(scene).await?;
        let recorded = |group: &Group| group.annotation(LAST_FAILOVER_TARGET) == Some(&scene.target);
        let what = "the record of the promotion";
        scene.stack.wait_until(what, RECORD_BUDGET, recorded).await?;
        let hold = Hold {
            publisher: true,
            ..Hold::default()
        };
        Ok((asked, hold))
    }

    /// Nothing holds a run at its end, where one write follows the other in milliseconds. So the record is caught on the bus.
    async fn reach_record(self, scene: &Scene<'_>) -> Result<(Asked, Hold), Failure> {
        let client = scene.stack.bus().client();
        let mut messages = client.subscribe(SubjectFilter::RECORDS.subject()).await?;
        client.flush().await?;
        let asked = self.ask(scene).await?;
        let caught = async {
            while let Some(stored) = messages.next().await {
                if let Payload::Record(record) = decode(Some(&stored.subject), &stored.payload)?.payload
                    && Some(record.planned_failover.phase) == self.phase()
                {
                    return Ok(());
                }
            }
            Err(failure("the subscription ended"))
        };
        tokio::time::timeout(RECORD_BUDGET, caught).await??;
        Ok((asked, Hold::default()))
    }

    /// The gate refuses a source that has lost its fence after the target was detached.
    async fn reach_restoring(self, scene: &Scene<'_>) -> Result<(Asked, Hold), Failure> {
        let gate = scene.gate(&scene.target)?;
        let mut detached = gate.stop_next("RESET REPLICA ALL", Stop::After);
        let asked = self.ask(scene).await?;
        detached.reached().await?;
        // `read_only` stays, so no application can write.
        let mut root = scene.stack.lab().mysql(&scene.source).await?;
        root.query_drop("SET GLOBAL super_read_only = OFF").await?;
        root.disconnect().await?;
        let (_, text, stop) = self
            .statement(scene)
            .ok_or("no statement is waited for at this moment")?;
        let mut statement = gate.stop_next(text, stop);
        drop(detached);
        statement.reached().await?;
        let hold = Hold {
            statement: Some(statement),
            ..Hold::default()
        };
        Ok((asked, hold))
    }

    /// Asks with kubectl, as an administrator does.
    pub(crate) async fn ask(self, scene: &Scene<'_>) -> Result<Asked, Failure> {
        let value = format!("{}{}", scene.target, self.parameters());
        Ok(scene.stack.annotate(&value).await?)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

impl Hold {
    /// Lets the run go on.
    pub(crate) async fn release(self, stack: &Stack) -> Result<(), Failure> {
        drop(self.statement);
        if let Some(session) = self.session {
            session.disconnect().await?;
        }
        if self.publisher && !stack.pids(Program::Publisher).is_empty() {
            stack.resume(Program::Publisher)?;
        }
        Ok(())
    }
}

/// Keeps the target from applying what the ledger writes, with both of its threads running.
async fn stop_applier(scene: &Scene<'_>) -> Result<Conn, Failure> {
    let mut root = scene.stack.lab().mysql(&scene.target).await?;
    root.query_drop("LOCK TABLES app.ledger READ").await?;
    Ok(root)
}
