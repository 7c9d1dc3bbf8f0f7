//! The ledger beside the stack: an application that writes through the primary's Service.

use std::path::PathBuf;

use bloodraven_ledger::{Ledger, Options, Report, Running, Survivor, prepare, report};
use futures::future::try_join_all;
use mysql_async::prelude::Queryable;
use secrecy::SecretString;

use crate::error::StackError;
use crate::stack::Stack;

/// How long a follower may take to apply what the active site holds, in seconds.
const FOLLOWERS_SECONDS: u32 = 10;

/// A ledger under way, and where it records.
#[derive(Debug)]
pub struct RunningLedger {
    /// The writers.
    pub running: Running,
    store: PathBuf,
}

impl Stack {
    /// What the ledger is told by default: four writers of one write each 10 ms through the primary's Service.
    #[must_use]
    pub fn ledger_options(&self) -> Options {
        let app = &self.lab().credentials().app;
        Options::new(
            vec![self.service().to_string()],
            app.user.clone(),
            SecretString::from(app.password.clone()),
        )
    }

    /// Makes the ledger's table and starts writing.
    ///
    /// # Errors
    /// When the table cannot be made on the active site or the ledger does not start.
    pub async fn start_ledger(&self) -> Result<RunningLedger, StackError> {
        self.start_ledger_with(&self.ledger_options()).await
    }

    /// Like [`Stack::start_ledger`] with options of the caller's choice.
    ///
    /// # Errors
    /// As [`Stack::start_ledger`].
    pub async fn start_ledger_with(&self, options: &Options) -> Result<RunningLedger, StackError> {
        let site = self.active_site().await?;
        let mut root = self.lab().mysql(&site).await?;
        let made = prepare(&mut root, &options.table_name()?).await;
        made.map_err(|source| StackError::LedgerServer {
            site,
            source: Box::new(source),
        })?;
        let store = self.dir().join("ledger.sqlite");
        let running = Ledger::start(options, &store)?;
        Ok(RunningLedger { running, store })
    }

    /// Stops the writers and judges what became of what they were told. The active site's history counts; the others
    /// are given a moment to apply what it holds.
    ///
    /// # Errors
    /// When the ledger cannot be stopped, or the record or a server cannot be read.
    pub async fn judge(&self, ledger: RunningLedger) -> Result<Report, StackError> {
        ledger.running.stop().await?;
        let active = self.active_site().await?;
        self.await_followers(&active).await?;
        let app = &self.lab().credentials().app;
        let mut survivors: Vec<Survivor> = self
            .lab()
            .sites()
            .iter()
            .map(|node| Survivor {
                name: node.site.clone(),
                endpoint: node.address().to_string(),
                user: app.user.clone(),
                password: SecretString::from(app.password.clone()),
            })
            .collect();
        survivors.sort_by_key(|survivor| survivor.name != active);
        Ok(report(&ledger.store, &survivors).await?)
    }

    /// Waits until the other sites hold what the active one holds. One that does not get there is left to the judgement.
    async fn await_followers(&self, active: &str) -> Result<(), StackError> {
        let mut primary = self.lab().mysql(active).await?;
        let set: Option<String> = asked(active, primary.query_first("SELECT @@GLOBAL.gtid_executed")).await?;
        let set = set.unwrap_or_default();
        let others = self.lab().sites().iter().filter(|node| node.site != active);
        try_join_all(others.map(async |node| {
            let mut follower = self.lab().mysql(&node.site).await?;
            let wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, ?)";
            let answer: Option<u8> = asked(&node.site, follower.exec_first(wait, (&set, FOLLOWERS_SECONDS))).await?;
            if answer != Some(0) {
                tracing::warn!(
                    site = node.site,
                    "the follower does not hold all that the active site holds"
                );
            }
            Ok(())
        }))
        .await
        .map(drop)
    }
}

async fn asked<T>(site: &str, answer: impl Future<Output = Result<T, mysql_async::Error>>) -> Result<T, StackError> {
    answer.await.map_err(|source| StackError::LedgerServer {
        site: site.to_owned(),
        source: Box::new(source),
    })
}
