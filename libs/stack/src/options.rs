//! What a stack should consist of.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use bloodraven_lab::LabOptions;
use serde_json::{Value, json};

use crate::program::Program;

/// What a stack should consist of. Fields are public so that `StackOptions { group: …, ..StackOptions::new("x") }` works.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// The servers. MySQL, NATS and the API server have to be switched on.
    pub lab: LabOptions,
    /// The group's namespace.
    pub namespace: String,
    /// The group's name.
    pub group: String,
    /// Fields of the group's spec, over those that follow from the lab. By default there is no cooldown.
    pub spec: serde_json::Map<String, Value>,
    /// How the group reaches a site's MySQL server, client port and administrative port; by default as the lab has them.
    pub addresses: BTreeMap<String, (SocketAddr, SocketAddr)>,
    /// The programs to start; a program named twice runs twice.
    pub programs: Vec<Program>,
    /// Configuration keys of single programs, as `--set key=value` takes them.
    pub settings: Vec<(Program, String, String)>,
    /// What the programs log.
    pub log_filter: String,
    /// The folder of the programs; by default where cargo puts them.
    pub program_dir: Option<PathBuf>,
    /// The checkout whose manifests are applied; by default the one around the running test.
    pub checkout: Option<PathBuf>,
}

impl StackOptions {
    /// A stack around a lab of this name.
    #[must_use]
    pub fn new(lab: &str) -> Self {
        Self::around(LabOptions {
            name: lab.to_owned(),
            ..LabOptions::default()
        })
    }

    /// A stack for a test; `hint` makes its lab recognisable.
    #[must_use]
    pub fn for_test(hint: &str) -> Self {
        Self::around(LabOptions::for_test(hint).with_mysql().with_nats().with_kube())
    }

    /// Sets a field of the group's spec.
    #[must_use]
    pub fn with_spec(mut self, field: &str, value: Value) -> Self {
        self.spec.insert(field.to_owned(), value);
        self
    }

    /// Sets a configuration key of a program.
    #[must_use]
    pub fn with_setting(mut self, program: Program, key: &str, value: &str) -> Self {
        self.settings.push((program, key.to_owned(), value.to_owned()));
        self
    }

    /// Runs a program once more.
    #[must_use]
    pub fn with_replica(mut self, program: Program) -> Self {
        self.programs.push(program);
        self
    }

    fn around(lab: LabOptions) -> Self {
        let mut spec = serde_json::Map::new();
        spec.insert("failoverCooldown".to_owned(), json!("0s"));
        spec.insert("dns".to_owned(), json!({ "hostname": "orders.example.com" }));
        Self {
            lab,
            namespace: "default".to_owned(),
            group: "orders".to_owned(),
            spec,
            addresses: BTreeMap::new(),
            programs: Program::ALL.to_vec(),
            settings: Vec::new(),
            log_filter: "info".to_owned(),
            program_dir: None,
            checkout: None,
        }
    }
}
