//! A lab's life: planned, started, attached to from elsewhere, detached, ended.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::error::LabError;
use crate::files;
use crate::install::Part;
use crate::manifests;
use crate::options::LabOptions;
use crate::plan;
use crate::ports;
use crate::process::{self, ExitCell, POLL_INTERVAL, ProcessId, ProcessName, ProcessSpec, ProcessState};
use crate::servers::{kube, mysql, mysql_setup, nats, valkey};
use crate::state::{self, Credentials, LabState};
use crate::status::{LabStatus, ProcessStatus};

/// How long a server may take until it serves; a loaded machine needs a good part of it.
const START_BUDGET: Duration = Duration::from_secs(60);

/// Real servers, started by [`Lab::up`]. A lab that this program started ends when the value is dropped: no process
/// and no file remains. [`Lab::detach`] makes it stay; [`Lab::attach`] finds it again from any program.
#[derive(Debug)]
pub struct Lab {
    pub(crate) dir: PathBuf,
    pub(crate) state: LabState,
    owned: bool,
    exits: Mutex<HashMap<ProcessName, ExitCell>>,
}

impl Lab {
    /// Starts the servers that `options` ask for and returns when all of them serve: replicas replicate, the first
    /// site is writable, JetStream has a leader, manifests are applied. When it fails nothing is left running.
    ///
    /// # Errors
    /// `NotInstalled`, `AlreadyUp`, `PortTaken`, `Option`, or the failure of the server that did not start, with the
    /// end of its log.
    pub async fn up(options: LabOptions) -> Result<Self, LabError> {
        options.check()?;
        check_parts(&options)?;
        sweep_abandoned();
        let mut lab = Self::create(&options)?;
        let dir = lab.dir.clone();
        let credentials = lab.state.credentials.clone();
        let planned_options = options.clone();
        lab.state = blocking(move || plan::plan(&dir, &planned_options, credentials)).await?;
        lab.state.write(&lab.dir)?;
        let kube = lab.start_kube(&options);
        tokio::try_join!(lab.start_mysql(), lab.start_nats(), lab.start_valkey(), Box::pin(kube))?;
        tracing::info!(lab = lab.name(), dir = %lab.dir.display(), "lab is up");
        Ok(lab)
    }

    /// Finds a lab that another program (or an earlier part of this one) has started. Dropping the value does nothing
    /// to the lab.
    ///
    /// # Errors
    /// `NoSuchLab`; `State` or `Io` when its state cannot be read.
    pub fn attach(name: &str) -> Result<Self, LabError> {
        let found = state::known_labs().into_iter().find(|(known, _)| known == name);
        let Some((_, dir)) = found else {
            let base = state::base_dirs().into_iter().next().unwrap_or_default();
            return Err(LabError::NoSuchLab {
                name: name.to_owned(),
                path: state::lab_dir(&base, name),
            });
        };
        Self::attach_to(&dir)
    }

    /// Like [`Lab::attach`] for a lab whose state is in `dir` (a `base_dir` of the caller's choice).
    ///
    /// # Errors
    /// `State` or `Io` when there is no readable state.
    pub fn attach_to(dir: &Path) -> Result<Self, LabError> {
        let state = LabState::read(dir)?;
        Ok(Self {
            dir: dir.to_path_buf(),
            state,
            owned: false,
            exits: Mutex::default(),
        })
    }

    /// Names of the labs that are up in the usual places.
    #[must_use]
    pub fn list() -> Vec<String> {
        state::known_labs().into_iter().map(|(name, _)| name).collect()
    }

    /// Makes the lab outlive this program. Until [`Lab::down`] it stays up.
    ///
    /// # Errors
    /// `Io` when its state cannot be written; it then still ends with this value.
    pub fn detach(&mut self) -> Result<(), LabError> {
        self.state.owner = None;
        self.state.write(&self.dir)?;
        self.owned = false;
        Ok(())
    }

    /// Ends the lab at once: kills its processes, waits until they are gone, removes its files. Blocks for some
    /// tens of milliseconds.
    ///
    /// # Errors
    /// `TimedOut` when a process cannot be killed, `Io` when a file cannot be removed.
    pub fn down(mut self) -> Result<(), LabError> {
        self.owned = false;
        self.end()
    }

    /// The lab's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The lab's folder: state, data, logs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its accounts and passwords.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.state.credentials
    }

    /// What runs now.
    #[must_use]
    pub fn status(&self) -> LabStatus {
        LabStatus {
            name: self.state.name.clone(),
            dir: self.dir.clone(),
            detached: self.state.owner.is_none(),
            processes: self.state.processes.iter().map(ProcessStatus::of).collect(),
        }
    }

    /// The specification of a process of this lab.
    pub(crate) fn spec(&self, name: &ProcessName) -> Result<&ProcessSpec, LabError> {
        self.state
            .processes
            .iter()
            .find(|spec| spec.name == *name)
            .ok_or_else(|| LabError::Unknown {
                kind: "process",
                name: name.to_string(),
                known: self.state.processes.iter().map(|spec| spec.name.to_string()).collect(),
            })
    }

    /// Starts a process without waiting for it.
    pub(crate) fn launch(&self, name: &ProcessName) -> Result<(), LabError> {
        let (_, exit) = self.spec(name)?.spawn()?;
        self.exits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.clone(), exit);
        Ok(())
    }

    /// Waits until a started process serves; notices at once when it ends instead.
    pub(crate) async fn await_ready(&self, name: &ProcessName) -> Result<(), LabError> {
        let spec = self.spec(name)?;
        let kube_client = match (&self.state.kube, name) {
            (Some(node), ProcessName::KubeApiserver) => {
                Some(kube::client(&kube::kubeconfig_path(node, kube::ADMIN)).await?)
            }
            (Some(_) | None, _) => None,
        };
        let started = Instant::now();
        loop {
            if spec.state() == ProcessState::Stopped {
                let exits = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
                let status = exits
                    .get(name)
                    .and_then(|cell| *cell.lock().unwrap_or_else(PoisonError::into_inner));
                return Err(spec.died(status));
            }
            if self.is_ready(name, kube_client.as_ref()).await {
                return Ok(());
            }
            if started.elapsed() > START_BUDGET {
                return Err(spec.timed_out("ready", started.elapsed()));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn is_ready(&self, name: &ProcessName, kube_client: Option<&::kube::Client>) -> bool {
        let state = &self.state;
        match name {
            ProcessName::Mysql(site) => match state.mysql.iter().find(|node| node.site == *site) {
                Some(node) => mysql_setup::connect_root(site, &node.socket).await.is_ok(),
                None => false,
            },
            ProcessName::Nats(number) => match state.nats.iter().find(|node| node.number == *number) {
                Some(node) => nats::is_ready(node).await,
                None => false,
            },
            ProcessName::Valkey(site) => match state.valkey.iter().find(|node| node.site == *site) {
                Some(node) => valkey::is_ready(node, &state.credentials.valkey).await,
                None => false,
            },
            ProcessName::Etcd => match &state.kube {
                Some(node) => tokio::net::TcpStream::connect(node.etcd).await.is_ok(),
                None => false,
            },
            ProcessName::KubeApiserver => match kube_client {
                Some(client) => kube::is_ready(client).await,
                None => false,
            },
        }
    }

    /// Makes the lab's folder and its first state, so that whatever happens next can be cleaned up.
    fn create(options: &LabOptions) -> Result<Self, LabError> {
        let base = options
            .base_dir
            .clone()
            .or_else(|| state::base_dirs().into_iter().next())
            .unwrap_or_default();
        files::create_dir(&base)?;
        let dir = state::lab_dir(&base, &options.name);
        if let Err(source) = files::create_private_dir(&dir) {
            let taken = source.kind() == std::io::ErrorKind::AlreadyExists;
            let already_up = LabError::AlreadyUp {
                name: options.name.clone(),
                path: dir.clone(),
            };
            return Err(if taken {
                already_up
            } else {
                LabError::io("create", &dir, source)
            });
        }
        let state = LabState {
            name: options.name.clone(),
            owner: ProcessId::own(),
            mysql: Vec::new(),
            nats: Vec::new(),
            valkey: Vec::new(),
            kube: None,
            credentials: Credentials::random()?,
            processes: Vec::new(),
        };
        let lab = Self {
            dir,
            state,
            owned: true,
            exits: Mutex::default(),
        };
        lab.state.write(&lab.dir)?;
        Ok(lab)
    }

    async fn start_mysql(&self) -> Result<(), LabError> {
        if self.state.mysql.is_empty() {
            return Ok(());
        }
        let template = blocking(mysql::template).await?;
        try_join_all(self.state.mysql.iter().map(async |node| {
            let (own_node, own_template) = (node.clone(), template.clone());
            blocking(move || mysql::unpack_data(&own_node, &own_template)).await?;
            let name = ProcessName::mysql(&node.site);
            self.launch(&name)?;
            self.await_ready(&name).await?;
            mysql_setup::create_accounts(node, &self.state.credentials).await
        }))
        .await?;
        let Some((source, replicas)) = self.state.mysql.split_first() else {
            return Ok(());
        };
        try_join_all(replicas.iter().map(async |replica| {
            let spec = self.spec(&ProcessName::mysql(&replica.site))?;
            mysql_setup::replicate(replica, spec, source, &self.state.credentials.replication).await
        }))
        .await?;
        mysql_setup::make_writable(source).await
    }

    async fn start_nats(&self) -> Result<(), LabError> {
        let names: Vec<ProcessName> = self
            .state
            .nats
            .iter()
            .map(|node| ProcessName::Nats(node.number))
            .collect();
        // One after the other, each reaching those before it at once: servers that start together miss each other's
        // first vote now and then, and the next one is seconds away.
        for name in &names {
            self.launch(name)?;
            self.await_ready(name).await?;
        }
        try_join_all(self.state.nats.iter().map(async |node| {
            let spec = self.spec(&ProcessName::Nats(node.number))?;
            let started = Instant::now();
            while !nats::has_meta_leader(node).await {
                if started.elapsed() > START_BUDGET {
                    return Err(spec.timed_out("part of a JetStream cluster with a leader", started.elapsed()));
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok(())
        }))
        .await
        .map(drop)
    }

    async fn start_valkey(&self) -> Result<(), LabError> {
        try_join_all(self.state.valkey.iter().map(async |node| {
            let name = ProcessName::valkey(&node.site);
            self.launch(&name)?;
            self.await_ready(&name).await
        }))
        .await
        .map(drop)
    }

    async fn start_kube(&self, options: &LabOptions) -> Result<(), LabError> {
        if self.state.kube.is_none() {
            return Ok(());
        }
        for name in [ProcessName::Etcd, ProcessName::KubeApiserver] {
            self.launch(&name)?;
            self.await_ready(&name).await?;
        }
        self.apply_manifests(&options.manifests, &options.namespace).await
    }

    /// Applies the `*.yaml` files of folders to the API server and makes a kubeconfig for every ServiceAccount in
    /// them. Folders that do not exist are left out. Objects without a namespace go to `namespace`.
    ///
    /// # Errors
    /// `Manifest` for a file that is none, `Kube` when the server refuses an object.
    pub async fn apply_manifests(&self, folders: &[PathBuf], namespace: &str) -> Result<(), LabError> {
        let client = self.kube_client(kube::ADMIN).await?;
        for account in manifests::apply(&client, folders, namespace).await? {
            self.write_account_kubeconfig(&client, &account).await?;
        }
        Ok(())
    }

    fn end(&self) -> Result<(), LabError> {
        process::kill_all(&self.state.processes)?;
        files::remove_all(&self.dir)?;
        ports::release(&self.dir);
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned
            && let Err(error) = self.end()
        {
            tracing::error!(lab = self.name(), %error, "lab could not be ended");
        }
    }
}

/// Ends labs whose program has ended without ending them (a test that was killed).
fn sweep_abandoned() {
    for (name, dir) in state::known_labs() {
        let Ok(lab) = Lab::attach_to(&dir) else { continue };
        if lab
            .state
            .owner
            .is_some_and(|owner| owner.state() == ProcessState::Stopped)
            && let Err(error) = lab.down()
        {
            tracing::warn!(lab = name, %error, "abandoned lab could not be ended");
        }
    }
}

fn check_parts(options: &LabOptions) -> Result<(), LabError> {
    let wanted = [
        (options.mysql, Part::Mysql),
        (options.nats, Part::Nats),
        (options.kube, Part::Kube),
        (options.valkey, Part::Valkey),
    ];
    wanted
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .try_for_each(|(_, part)| part.check())
}

/// Runs blocking work beside the asynchronous one.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LabError> + Send + 'static,
) -> Result<T, LabError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Lab, LabOptions};

    /// A lab can be started from a spawned task and shared between threads.
    #[test]
    fn labs_are_for_any_thread() {
        fn send<T: Send>(_: &T) {}
        fn shared<T: Send + Sync>() {}
        shared::<Lab>();
        send(&Lab::up(LabOptions::for_test("send")));
    }
}
