//! Using a stack as an administrator does: kubectl, the group, the story of a run.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use bloodraven_lab::kubectl;
use bloodraven_types::annotation::PLANNED_FAILOVER;
use bloodraven_types::{Group, RunId};

use crate::error::StackError;
use crate::group::Asked;
use crate::stack::Stack;
use crate::timeline::{self, Timeline};

impl Stack {
    /// The group as it is now.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn record(&self) -> Result<Group, StackError> {
        self.group.read().await
    }

    /// The site that the last failover went to, else the active one. The observation lags a failover by a poll; the
    /// record does not.
    ///
    /// # Errors
    /// When the API server does not answer or no site is active.
    pub async fn active_site(&self) -> Result<String, StackError> {
        let status = self.record().await?.status;
        let site = status.last_failover.map(|last| last.target).or(status.active_site);
        site.map(|site| site.to_string()).ok_or_else(|| StackError::TimedOut {
            what: "an active site".to_owned(),
            waited: Duration::ZERO,
            last: "the group has none".to_owned(),
        })
    }

    /// Asks for a planned failover with a real `kubectl annotate`.
    ///
    /// # Errors
    /// When kubectl fails.
    pub async fn annotate(&self, value: &str) -> Result<Asked, StackError> {
        let asked = self.about_to_ask().await?;
        let annotation = format!("{PLANNED_FAILOVER}={value}");
        self.kubectl(["annotate", "mysqlfailovergroup", &self.key().name, &annotation])
            .await?;
        Ok(asked)
    }

    /// Notes the latest run, for a request that is about to be made in some other way.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn about_to_ask(&self) -> Result<Asked, StackError> {
        Ok(Asked {
            before: self.record().await?.run().map(|run| run.run_id),
        })
    }

    /// Runs kubectl as administrator in the group's namespace.
    ///
    /// # Errors
    /// When it fails.
    pub async fn kubectl<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Output, StackError> {
        let mut command = self.kubectl_command()?;
        command.args(arguments);
        let shown = format!("{:?}", command.as_std());
        let output = command
            .output()
            .await
            .map_err(|source| StackError::io("run", Path::new("kubectl"), source))?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(StackError::Command {
            command: shown,
            status: output.status.to_string(),
            output: said,
        })
    }

    /// A kubectl command line as administrator in the group's namespace, for which `kubectl bloodraven` works.
    ///
    /// # Errors
    /// When kubectl is not installed.
    pub fn kubectl_command(&self) -> Result<tokio::process::Command, StackError> {
        let mut command = tokio::process::Command::new(kubectl()?);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.program_dir.clone()).chain(std::env::split_paths(&path));
        command
            .env("PATH", std::env::join_paths(folders).unwrap_or(path))
            .kill_on_drop(true);
        // kubectl takes flags only after a plugin's name, so the context is given by the environment.
        command.env("KUBECONFIG", self.lab().kubeconfig("admin")?);
        Ok(command)
    }

    /// Watches the group until the condition holds; `what` is for the message when it does not.
    ///
    /// # Errors
    /// When it does not hold within `limit`, with what was seen last.
    pub async fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        holds: impl FnMut(&Group) -> bool,
    ) -> Result<Group, StackError> {
        self.group.wait_until(what, limit, holds).await
    }

    /// Watches until the run that was asked for has ended, by its record or by a terminal marker.
    ///
    /// # Errors
    /// When it has not ended within `limit`, with what was seen last.
    pub async fn wait_for_end(&self, asked: &Asked, limit: Duration) -> Result<Group, StackError> {
        self.wait_until("the end of the run", limit, |group| asked.has_ended(group))
            .await
    }

    /// When the run was in which phase, and every message about it. Waits until its last record is on the stream.
    ///
    /// # Errors
    /// When the stream cannot be read or the last record does not come.
    pub async fn timeline(&self, run_id: RunId) -> Result<Timeline, StackError> {
        timeline::read(self.bus(), self.key(), run_id).await
    }
}
