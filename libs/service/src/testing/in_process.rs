//! Runs the body of a binary inside of a test: the same tasks, health and endpoints, without signals and global state.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::task::JoinHandle;

use crate::config::{Config, Loaded};
use crate::error::BoxError;
use crate::metrics;
use crate::run::{Context, Wired, spawn_body, wire};
use crate::shutdown::{self, Ending};
use crate::tasks::TaskOutput;

/// A body that runs in a test.
#[derive(Debug)]
pub struct InProcess<C> {
    /// What the body was given: its health and its endpoints can be asked, its token cancelled.
    pub context: Context<C>,
    end: JoinHandle<Ending>,
}

/// The process would not have ended with exit code 0.
#[derive(Debug, thiserror::Error)]
#[error("{binary} would have exited with {code}: {ending}")]
pub struct StopError {
    binary: &'static str,
    code: u8,
    ending: String,
}

/// Starts a body with this configuration; its admin endpoints are on a free port of the loopback, see
/// [`crate::Admin::address`].
///
/// # Errors
///
/// When the endpoints cannot be bound.
pub async fn start<C, F, Fut>(binary: &'static str, mut config: C, body: F) -> Result<InProcess<C>, BoxError>
where
    C: Config,
    F: FnOnce(Context<C>) -> Fut + Send + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: TaskOutput,
{
    config.common_mut().admin.address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let grace = config.common().shutdown_grace;
    let loaded = Loaded {
        config,
        origins: BTreeMap::new(),
        ignored_variables: Vec::new(),
    };
    let (_, metrics) = metrics::recorder(&[])?;
    let Wired {
        context,
        failures,
        stop_admin,
    } = wire(binary, loaded, metrics).await?;
    let (tasks, cancel) = (context.tasks.clone(), context.cancel.clone());
    spawn_body(context.clone(), body);
    let end = tokio::spawn(async move {
        let ending = shutdown::supervise(&tasks, failures, &cancel, futures::stream::pending(), grace).await;
        stop_admin.cancel();
        ending
    });
    Ok(InProcess { context, end })
}

impl<C> InProcess<C> {
    /// Asks for the stop and waits for the end, as a signal would.
    ///
    /// # Errors
    ///
    /// When a task has failed, panicked, or did not stop within the grace period.
    pub async fn stop(self) -> Result<(), StopError> {
        self.context.cancel.cancel();
        self.ended().await
    }

    /// Waits for the end without asking for it.
    ///
    /// # Errors
    ///
    /// When a task has failed, panicked, or did not stop within the grace period.
    pub async fn ended(self) -> Result<(), StopError> {
        let binary = self.context.binary;
        match self.end.await {
            Ok(Ending::Clean) => Ok(()),
            Ok(ending) => Err(StopError {
                binary,
                code: ending.code(),
                ending: format!("{ending:?}"),
            }),
            Err(error) => Err(StopError {
                binary,
                code: Ending::Failed.code(),
                ending: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CommonConfig;
    use crate::testing::expect_no_errors;

    async fn until_cancelled(context: Context<CommonConfig>) {
        let check = context.health.check("bus");
        let cancel = context.cancel.clone();
        context
            .tasks
            .spawn_loop("loop", async move { cancel.cancelled().await });
        check.ready();
    }

    /// A body that heeds the token ends well, and its checks can be asked meanwhile.
    #[tokio::test]
    async fn a_body_runs_in_a_test() {
        let _errors = expect_no_errors();
        let running = start("body", CommonConfig::default(), until_cancelled).await.unwrap();
        while !running.context.health.not_ready().is_empty() {
            tokio::task::yield_now().await;
        }
        let health = running.context.health.clone();
        running.stop().await.unwrap();
        assert_eq!(health.not_ready().first().unwrap().reason, "stopping");
    }

    /// A body that fails says so with the exit code that its process would have had.
    #[tokio::test]
    async fn a_failing_body_is_reported() {
        let errors = expect_no_errors();
        errors.allow("no bus");
        let body = async |_: Context<CommonConfig>| Err::<(), BoxError>("no bus".into());
        let error = start("body", CommonConfig::default(), body)
            .await
            .unwrap()
            .ended()
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "body would have exited with 1: Failed");
    }
}
