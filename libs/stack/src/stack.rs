//! A stack's life: started, settled, ended.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bloodraven_bus::Connection;
use bloodraven_lab::{Account, Lab, ServiceProxy};
use bloodraven_types::{Group, GroupKey};
use futures::future::{join_all, try_join_all};

use crate::error::StackError;
use crate::files;
use crate::group::GroupObject;
use crate::logs::LogLine;
use crate::options::StackOptions;
use crate::process::{Plan, Process};
use crate::program::Program;
use crate::timeline;

/// How long the binaries may take to find the first site active and to label its pod.
const SETTLE_BUDGET: Duration = Duration::from_secs(60);

/// Everything that runs. It all ends when the value is dropped.
#[derive(Debug)]
pub struct Stack {
    // The programs come first, so that they are gone before the servers that they would complain about.
    pub(crate) processes: Mutex<BTreeMap<Program, Vec<Slot>>>,
    proxy: ServiceProxy,
    bus: Connection,
    pub(crate) group: GroupObject,
    key: GroupKey,
    pub(crate) program_dir: PathBuf,
    dir: PathBuf,
    lab: Lab,
}

/// One replica of a program.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) plan: Plan,
    pub(crate) process: Option<Process>,
}

impl Stack {
    /// Starts the lab, applies the manifests, makes pods and group, starts the programs, and returns when the first
    /// site is active and its pod carries the primary's label.
    ///
    /// # Errors
    /// When a part is not installed or built, or does not come up; the message has the end of its log.
    pub async fn up(options: StackOptions) -> Result<Self, StackError> {
        let checkout = options.checkout.clone().map_or_else(files::checkout, Ok)?;
        let program_dir = options
            .program_dir
            .clone()
            .unwrap_or_else(|| files::program_dir(&checkout));
        for program in &options.programs {
            check_built(&program_dir.join(program.name()))?;
        }
        let lab = options.lab.clone();
        let lab = lab
            .with_manifests(checkout.join("k8s/crds"))
            .with_manifests(checkout.join("k8s/rbac"));
        let lab = Box::pin(Lab::up(lab)).await?;
        lab.create_pods(&options.namespace, &options.group).await?;
        let group = GroupObject::create(lab.kube_client("admin").await?, &lab, &options).await?;
        let proxy = lab.service_proxy(&options.namespace, &options.group, "primary").await?;
        let bus = timeline::connect_to(&lab).await?;
        let dir = lab.dir().join("programs");
        std::fs::create_dir_all(&dir).map_err(|source| StackError::io("make", &dir, source))?;
        let key = GroupKey::new(options.namespace.clone(), options.group.clone());
        let stack = Self {
            processes: Mutex::default(),
            proxy,
            bus,
            group,
            key,
            program_dir,
            dir,
            lab,
        };
        stack.plan(&options)?;
        let programs: BTreeSet<Program> = options.programs.iter().copied().collect();
        try_join_all(programs.iter().map(|program| stack.start(*program))).await?;
        if programs.contains(&Program::TopologyManager) && programs.contains(&Program::Publisher) {
            stack.settle().await?;
        }
        Ok(stack)
    }

    /// The servers.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The folder of the programs' configuration and logs; it goes with the stack.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The group's namespace and name.
    #[must_use]
    pub fn key(&self) -> &GroupKey {
        &self.key
    }

    /// A connection to the bus.
    #[must_use]
    pub fn bus(&self) -> &Connection {
        &self.bus
    }

    /// The address of the primary's Service: new connections go to whichever pod has the label.
    #[must_use]
    pub fn service(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// The relay behind [`Stack::service`].
    #[must_use]
    pub fn proxy(&self) -> &ServiceProxy {
        &self.proxy
    }

    /// Ends everything: programs first, in good order, then the servers.
    ///
    /// # Errors
    /// When a program has logged an error, has ended by itself or does not stop in time. Everything is ended all the same.
    pub async fn down(self) -> Result<(), StackError> {
        self.down_where(|_| false).await
    }

    /// Like [`Stack::down`], and log lines for which `expected` holds are no error.
    ///
    /// # Errors
    /// As [`Stack::down`].
    pub async fn down_where(self, expected: impl Fn(&LogLine) -> bool) -> Result<(), StackError> {
        let running: Vec<Program> = Program::ALL
            .into_iter()
            .filter(|program| !self.pids(*program).is_empty())
            .collect();
        let stopped = join_all(running.into_iter().map(|program| self.stop(program))).await;
        let errors: Vec<String> = self
            .errors()
            .into_iter()
            .filter(|line| !expected(line))
            .map(|line| line.to_string())
            .collect();
        let Self {
            processes, proxy, lab, ..
        } = self;
        drop((processes, proxy));
        lab.down()?;
        if !errors.is_empty() {
            return Err(StackError::Logged(errors.join("\n")));
        }
        stopped.into_iter().collect()
    }

    /// Writes each program's configuration.
    fn plan(&self, options: &StackOptions) -> Result<(), StackError> {
        let mut processes = self.lock();
        for &program in &options.programs {
            let slots = processes.entry(program).or_default();
            let instance = format!("{program}-{}", slots.len());
            let file = self.dir.join(format!("{instance}.toml"));
            files::write_private(&file, &self.configuration(program, &instance, options)?)?;
            let mut arguments = vec!["--config".to_owned(), file.to_string_lossy().into_owned()];
            for (_, key, value) in options.settings.iter().filter(|(of, _, _)| *of == program) {
                arguments.extend(["--set".to_owned(), format!("{key}={value}")]);
            }
            let log = self.dir.join(format!("{instance}.log"));
            let path = self.program_dir.join(program.name());
            slots.push(Slot {
                plan: Plan {
                    program,
                    path,
                    arguments,
                    log,
                },
                process: None,
            });
        }
        Ok(())
    }

    fn configuration(&self, program: Program, instance: &str, options: &StackOptions) -> Result<String, StackError> {
        // JSON's strings are TOML's basic strings.
        let text = |value: &str| serde_json::Value::from(value).to_string();
        let credentials = self.lab.credentials();
        let urls: Vec<String> = self
            .lab
            .nats_nodes()
            .iter()
            .map(|node| text(&format!("nats://{}", node.address())))
            .collect();
        let kubeconfig = self.lab.kubeconfig(program.name())?;
        let account = |user: &str, password: &str, account: &Account| {
            format!(
                "{user} = {}\n{password} = {}\n",
                text(&account.user),
                text(&account.password)
            )
        };
        Ok([
            format!("instance = {}\n", text(instance)),
            format!("[bus]\nurls = [{}]\n", urls.join(", ")),
            account("user", "password", &credentials.nats),
            format!("[kubernetes]\nkubeconfig = {}\n", text(&kubeconfig.to_string_lossy())),
            format!("namespace = {}\n", text(&options.namespace)),
            "[admin]\naddress = \"127.0.0.1:0\"\n".to_owned(),
            format!(
                "[log]\nformat = \"json\"\nfilter = {}\n[mysql]\n",
                text(&options.log_filter)
            ),
            account("user", "password", &credentials.bloodraven),
            account("replication-user", "replication-password", &credentials.replication),
        ]
        .concat())
    }

    /// Waits until the first site is active and the Service leads there.
    async fn settle(&self) -> Result<(), StackError> {
        let first = self.lab.sites().first().map(|node| (node.site.clone(), node.address()));
        let Some((site, address)) = first else { return Ok(()) };
        let active = |group: &Group| {
            group
                .status
                .active_site
                .as_ref()
                .is_some_and(|active| active.as_str() == site)
        };
        self.wait_until(&format!("{site} being active"), SETTLE_BUDGET, active)
            .await?;
        let started = Instant::now();
        let mut target = self.proxy.watch_target();
        let led = tokio::time::timeout(SETTLE_BUDGET, target.wait_for(|target| *target == Some(address))).await;
        match led {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(StackError::TimedOut {
                what: format!("the primary's label on {site}'s pod"),
                waited: started.elapsed(),
                last: format!("the Service leads to {:?}", self.proxy.target()),
            }),
        }
    }
}

fn check_built(path: &Path) -> Result<(), StackError> {
    if path.is_file() {
        Ok(())
    } else {
        Err(StackError::NotBuilt { path: path.to_owned() })
    }
}
