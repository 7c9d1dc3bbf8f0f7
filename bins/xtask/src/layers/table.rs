//! The allowed arrows as data: which layer each crate is in, which layers a layer may use, and who may hold a client.
//!
//! ```text
//! binaries ─► worker ─► service, executor, adapters       executor ─► ports, failover       adapters ─► ports
//! ports, failover, messages, crd ─► types, gtid      development ─► anything but binaries
//! ```

/// Where a crate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The words of the domain.
    Types,
    /// The GTID set algebra.
    Gtid,
    /// The machines.
    Failover,
    /// What goes over the bus.
    Messages,
    /// The custom resource.
    Crd,
    /// The traits between procedures and the world.
    Ports,
    /// One client crate each, behind the ports.
    Adapter,
    /// Procedures over ports.
    Executor,
    /// The frame of every binary.
    Service,
    /// What the binaries share of putting adapters, executors and the frame together.
    Wiring,
    /// Laboratory, ledger, simulation, this tool: never part of what is deployed.
    Development,
    /// What is deployed.
    Binary,
}

/// A layer and what it may use.
pub(crate) struct Rule {
    /// The layer.
    pub(crate) layer: Layer,
    /// Layers it may depend on.
    pub(crate) may_use: &'static [Layer],
}

/// Which layers a layer may use. A layer without a rule of its own may use nothing of ours.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        layer: Layer::Failover,
        may_use: PURE_WORDS,
    },
    Rule {
        layer: Layer::Messages,
        may_use: PURE_WORDS,
    },
    Rule {
        layer: Layer::Crd,
        may_use: PURE_WORDS,
    },
    Rule {
        layer: Layer::Ports,
        may_use: PURE_WORDS,
    },
    Rule {
        layer: Layer::Adapter,
        may_use: &[Layer::Ports, Layer::Types, Layer::Gtid],
    },
    Rule {
        layer: Layer::Executor,
        may_use: &[Layer::Ports, Layer::Failover, Layer::Types, Layer::Gtid],
    },
    Rule {
        layer: Layer::Service,
        may_use: &[Layer::Ports, Layer::Messages, Layer::Types],
    },
    Rule {
        layer: Layer::Wiring,
        may_use: EVERY_LIBRARY,
    },
    Rule {
        layer: Layer::Binary,
        may_use: EVERY_LIBRARY,
    },
    Rule {
        layer: Layer::Binary,
        may_use: &[Layer::Wiring],
    },
    Rule {
        layer: Layer::Development,
        may_use: EVERY_LIBRARY,
    },
    Rule {
        layer: Layer::Development,
        may_use: &[Layer::Development, Layer::Wiring],
    },
];

const EVERY_LIBRARY: &[Layer] = &[
    Layer::Service,
    Layer::Executor,
    Layer::Adapter,
    Layer::Messages,
    Layer::Ports,
    Layer::Failover,
    Layer::Types,
    Layer::Gtid,
    Layer::Crd,
];

const PURE_WORDS: &[Layer] = &[Layer::Types, Layer::Gtid];

/// Arrows beyond those of the layers: an adapter that carries a format of ours may know that format.
pub(crate) const FURTHER_ARROWS: &[(&str, &str)] = &[
    ("bloodraven-bus", "bloodraven-messages"),
    ("bloodraven-kubernetes", "bloodraven-crd"),
];

/// The layer of each library. Whatever is in `bins/` is a binary unless it is named here.
pub(crate) const CRATES: &[(&str, Layer)] = &[
    ("bloodraven-types", Layer::Types),
    ("bloodraven-gtid", Layer::Gtid),
    ("bloodraven-failover", Layer::Failover),
    ("bloodraven-messages", Layer::Messages),
    ("bloodraven-crd", Layer::Crd),
    ("bloodraven-ports", Layer::Ports),
    ("bloodraven-mysql", Layer::Adapter),
    ("bloodraven-bus", Layer::Adapter),
    ("bloodraven-kubernetes", Layer::Adapter),
    ("bloodraven-executor", Layer::Executor),
    ("bloodraven-service", Layer::Service),
    ("bloodraven-worker", Layer::Wiring),
    ("bloodraven-lab", Layer::Development),
    ("bloodraven-ledger", Layer::Development),
    ("bloodraven-sim", Layer::Development),
    ("bloodraven-stack", Layer::Development),
    ("bloodraven-xtask", Layer::Development),
];

/// Development crates that know nothing of ours: the judge and the servers must not share a mistake with the judged.
pub(crate) const INDEPENDENT: &[&str] = &["bloodraven-ledger", "bloodraven-lab"];

/// Layers that decide and must stay free of sockets, runtimes and clocks, however far down the dependency is.
pub(crate) const PURE: &[Layer] = &[Layer::Types, Layer::Gtid, Layer::Failover, Layer::Messages];

/// What no pure crate may reach.
pub(crate) const IMPURE: &[&str] = &[
    "tokio",
    "async-nats",
    "mysql_async",
    "kube",
    "kube-client",
    "axum",
    "hyper",
    "redis",
    "reqwest",
    "rusqlite",
    "rustls",
    "socket2",
];

/// Client crates and the deployed crates that may name them. Development crates may name any.
pub(crate) const CLIENTS: &[(&str, &[&str])] = &[
    ("async-nats", &["bloodraven-bus"]),
    ("mysql_async", &["bloodraven-mysql"]),
    (
        "kube",
        &[
            "bloodraven-crd",
            "bloodraven-kubernetes",
            "bloodraven-worker",
            "kubectl-bloodraven",
        ],
    ),
    ("axum", &["bloodraven-service"]),
];

impl Layer {
    /// The layer's name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Types => "types",
            Self::Gtid => "gtid",
            Self::Failover => "failover",
            Self::Messages => "messages",
            Self::Crd => "crd",
            Self::Ports => "ports",
            Self::Adapter => "adapter",
            Self::Executor => "executor",
            Self::Service => "service",
            Self::Wiring => "wiring",
            Self::Development => "development",
            Self::Binary => "binary",
        }
    }

    /// Whether a crate of this layer may depend on one of that layer.
    pub(crate) fn may_use(self, other: Self) -> bool {
        RULES
            .iter()
            .any(|rule| rule.layer == self && rule.may_use.contains(&other))
    }

    /// The layers that it may use, for messages.
    pub(crate) fn allowed(self) -> String {
        let names: Vec<_> = RULES
            .iter()
            .filter(|rule| rule.layer == self)
            .flat_map(|rule| rule.may_use)
            .map(|layer| layer.name())
            .collect();
        if names.is_empty() {
            "nothing of ours".to_owned()
        } else {
            names.join(", ")
        }
    }
}
