//! The closed vocabularies of the interface: roles, phases, outcomes, reasons, warnings, events.
//!
//! Each is an enum whose variants serialise as the reference spells them, so that a misspelt reason does not compile.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares an enum whose variants are their own spelling on every interface.
macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl $name {
            /// Every value, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The spelling on the interface.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant)),+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

vocabulary!(
    /// What a site is for (`spec.sites[].role`).
    SiteRole {
        /// May be promoted.
        PrimaryCandidate,
        /// Holds a copy for disasters; never promoted, must answer read-only before a promotion.
        DisasterRecovery,
        /// Serves reads; never promoted and not needed to answer.
        ReadOnly,
    }
);

impl SiteRole {
    /// Whether a planned run needs a live read-only answer of such a site (reference, "Strict by design").
    pub const fn must_answer(self) -> bool {
        match self {
            Self::PrimaryCandidate | Self::DisasterRecovery => true,
            Self::ReadOnly => false,
        }
    }
}

vocabulary!(
    /// Where a run stands (`status.plannedFailover.phase`).
    Phase {
        /// The request has an id and owns nothing yet.
        Admitting,
        /// The request waits for a cooldown or a deployment hold and owns nothing.
        Deferred,
        /// The claim is granted and the intent to fence the source is durable.
        Fencing,
        /// The fence is proven; application sessions are being ended.
        Draining,
        /// The target is applying the fenced set.
        WaitingForLag,
        /// The target cache is reaching the source cache's offset.
        WaitingForDragonflySync,
        /// The target cache is being promoted.
        PromotingDragonfly,
        /// The intent to promote the target is durable.
        Promoting,
        /// The promotion is confirmed, recorded and published; the claim is released.
        Publishing,
        /// Nothing was written to the target; the source is being made writable again.
        RollingBack,
        /// Ended well.
        Succeeded,
        /// Ended otherwise; the outcome says in what state the group was left.
        Failed,
    }
);

impl Phase {
    /// Whether the run has ended.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Admitting
            | Self::Deferred
            | Self::Fencing
            | Self::Draining
            | Self::WaitingForLag
            | Self::WaitingForDragonflySync
            | Self::PromotingDragonfly
            | Self::Promoting
            | Self::Publishing
            | Self::RollingBack => false,
        }
    }

    /// Whether a run of this phase needs the claim (PF-CLM-01); the confirmed annotation ends that earlier.
    pub const fn needs_claim(self) -> bool {
        match self {
            Self::Fencing
            | Self::Draining
            | Self::WaitingForLag
            | Self::WaitingForDragonflySync
            | Self::PromotingDragonfly
            | Self::Promoting
            | Self::RollingBack => true,
            Self::Admitting | Self::Deferred | Self::Publishing | Self::Succeeded | Self::Failed => false,
        }
    }
}

vocabulary!(
    /// What the group was left in (`result.outcome`).
    Outcome {
        /// Promoted, confirmed, recorded and published.
        Succeeded,
        /// Nothing was sent to any site.
        NotStarted,
        /// The source is writable again and nothing was written to the target.
        RolledBack,
        /// Nothing was written to the target and the source stays read-only.
        SourceLeftFenced,
        /// The target may be writable and could not be confirmed.
        PromotedUnconfirmed,
        /// A write is possible and the result cannot be explained; automation is held.
        ManualRecoveryRequired,
    }
);

impl Outcome {
    /// The metric label: the outcome in kebab case (PF-OBS-03).
    pub const fn label(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::NotStarted => "not-started",
            Self::RolledBack => "rolled-back",
            Self::SourceLeftFenced => "source-left-fenced",
            Self::PromotedUnconfirmed => "promoted-unconfirmed",
            Self::ManualRecoveryRequired => "manual-recovery-required",
        }
    }
}

vocabulary!(
    /// Why a run ended (`result.reason`) or rolls back (`rollback.reason`).
    Reason {
        /// The annotation's value could not be read, or an override was out of range.
        InvalidAnnotation,
        /// A site is not in `spec.sites`.
        UnknownSite,
        /// The target is no PrimaryCandidate.
        TargetNotPromotable,
        /// The target is the active site.
        AlreadyActive,
        /// The target is no healthy read-only replica.
        TargetUnhealthy,
        /// The target is in a keyring rotation.
        KeyringRotation,
        /// A failover was recorded within the cooldown.
        CooldownActive,
        /// An ordered update, a restore or a deployment hold owns the sites.
        ConcurrentOperation,
        /// The durable failover record cannot be read.
        InvalidFailoverState,
        /// The annotation was removed while the run was deferred.
        Canceled,
        /// The active site is another than the request expected (X-CAS-01).
        UnexpectedActiveSite,
        /// The target holds transactions that the source does not.
        DivergentTarget,
        /// An automation hold stands.
        ManualRecoveryPending,
        /// The claim was not granted within the admission deadline.
        AdmissionTimeout,
        /// Authority over the source moved.
        AuthorityChanged,
        /// The block was written by something older.
        LegacyRunRefused,
        /// The fence could not be applied and proven in time.
        FenceFailed,
        /// The source did not answer.
        SourceLost,
        /// The source's fence disappeared before the promotion.
        SourceUnfenced,
        /// The target did not answer.
        TargetLost,
        /// Another site answered writable.
        ForeignWritable,
        /// A site that must answer did not.
        PeerUnreadable,
        /// The target did not apply the fenced set in time.
        LagTimeout,
        /// The fenced set could not be parsed.
        InvalidGTID,
        /// The cache did not reach the source's offset in time.
        DragonflySyncTimeout,
        /// The cache takeover was not confirmed.
        DragonflyPromotionFailed,
        /// The target is not the server, or not in the state, that the intent recorded.
        TargetChanged,
        /// The promotion statements kept failing before anything was written.
        PromotionAborted,
        /// A write may have been sent and could not be confirmed.
        PromotionUnconfirmed,
        /// No topology manager ran for the group.
        ManagerUnavailable,
        /// Status writes kept failing.
        StatusStalled,
        /// The promotion failed in a way that the run cannot explain.
        ExecuteFailed,
        /// The run's own records contradict each other.
        InternalError,
    }
);

vocabulary!(
    /// What qualifies an outcome (`result.warnings`).
    Warning {
        /// Promoted, but the DNS record was not updated.
        DNSUpdateFailed,
        /// The cache moved and MySQL did not.
        DragonflySessionsLost,
        /// A rollback left the target without a running channel.
        TargetReplicationNotRestored,
        /// A peer did not answer where that is allowed.
        UnreachablePeers,
        /// The source is read-only and the fence is not provably the run's.
        FenceNotAttributable,
        /// Ended with a terminal marker.
        StatusStalled,
        /// The source's server UUID changed during the run.
        SourceReplaced,
        /// The target could not be verified back at `super_read_only=ON`.
        TargetSuperReadOnlyNotRestored,
    }
);

vocabulary!(
    /// Why a request waits in admission (`admission.waitReason`).
    WaitReason {
        /// No topology manager answers for the group.
        ManagerAbsent,
        /// The topology manager has not completed a poll.
        ManagerNotReady,
        /// The topology manager is being replaced.
        ManagerRetiring,
        /// A replaced topology manager is still changing the sites.
        PredecessorBusy,
        /// No unique writable primary is settled.
        AuthorityUnsettled,
        /// A site that must answer did not.
        PeerUnreadable,
        /// The target cannot take over yet.
        TargetNotReady,
        /// The target is too far behind to fence the source for it (X-LAG-01).
        TargetLagging,
        /// Something would block the fence (X-PRE-01, report B16).
        FenceWouldBlock,
        /// An emergency promotion holds the sites.
        PromotionInFlight,
        /// An ordered update holds the sites.
        UpdateInFlight,
        /// A restore holds the sites.
        RestoreInFlight,
        /// A bootstrap holds the sites.
        BootstrapInFlight,
        /// A recovery or convergence step is running.
        RecoveryInFlight,
        /// A keyring rotation of the target is being admitted.
        KeyringRotation,
        /// A cache snapshot upgrade is in flight.
        DragonflyUpgradeInFlight,
        /// Another run holds the claim.
        ClaimHeld,
        /// Reserved.
        StatusUnsettled,
    }
);

vocabulary!(
    /// Why a request is deferred (`admission.deferReason`).
    DeferReason {
        /// A failover was recorded within the cooldown.
        CooldownActive,
        /// A deployment holds the group.
        DeploymentHold,
    }
);

vocabulary!(
    /// How far an announced step is (`fence.state`, `promotion.state`, `takeover.state`, `dns.state`).
    StepState {
        /// The intent is durable; the step may or may not have been sent.
        Intended,
        /// The step's effect is proven.
        Applied,
        /// The promotion is proven by live reads.
        Confirmed,
        /// The takeover was acknowledged.
        Succeeded,
        /// The step failed.
        Failed,
    }
);

vocabulary!(
    /// What to do with a request inside the cooldown (`spec.plannedFailover.onCooldown`).
    OnCooldown {
        /// End it NotStarted.
        Reject,
        /// Keep it and retry by itself.
        Defer,
    }
);

vocabulary!(
    /// What to do when the cache cannot follow (`spec.dragonfly.plannedFailover.onSyncTimeout`).
    OnSyncTimeout {
        /// Promote MySQL anyway.
        Proceed,
        /// Roll back.
        Fail,
    }
);

/// What is known of a site's server (`status.sites[].state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SiteState {
    /// Not observed yet.
    #[default]
    Unknown,
    /// Accepts writes.
    Writable,
    /// Refuses writes.
    ReadOnly,
    /// Does not answer.
    Unreachable,
}

impl SiteState {
    /// The spelling on the interface.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Writable => "writable",
            Self::ReadOnly => "read-only",
            Self::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for SiteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

vocabulary!(
    /// Whether a follower replicates straight from the primary (`status.sites[].sourceConvergenceState`).
    ConvergenceState {
        /// It does.
        Converged,
        /// It is being re-pointed.
        Pending,
        /// It cannot be re-pointed.
        Blocked,
    }
);

vocabulary!(
    /// Why a follower is in its convergence state.
    ConvergenceReason {
        /// It follows the primary.
        DirectSource,
        /// It follows another server or none.
        SourceMismatch,
        /// It could not be read.
        ProbeFailed,
        /// A statement failed.
        MutationFailed,
        /// It holds transactions that the primary does not.
        GTIDDiverged,
    }
);

vocabulary!(
    /// The Kubernetes Events of planned failovers (reference, "Events").
    EventReason {
        /// A request was accepted, or a deferred one resumed.
        PlannedFailoverStarted,
        /// The target is the active primary already.
        PlannedFailoverSkipped,
        /// The request waits for a cooldown or a hold.
        PlannedFailoverDeferred,
        /// The admission wait reason or its detail changed.
        PlannedFailoverAdmissionDelayed,
        /// The claim was granted.
        PlannedFailoverClaimGranted,
        /// The source is fenced.
        PlannedFailoverDrainStarted,
        /// The target applied the fenced set.
        PlannedFailoverTargetCaughtUp,
        /// Succeeded.
        PlannedFailoverSucceeded,
        /// Refused or ignored.
        PlannedFailoverRejected,
        /// The run entered RollingBack.
        PlannedFailoverRollbackStarted,
        /// Failed after a fence intent.
        PlannedFailoverFailed,
        /// Promoted, but DNS did not update.
        PlannedFailoverDNSUpdateFailed,
        /// PromotedUnconfirmed.
        PlannedFailoverPromotionConfirmationFailed,
        /// No topology manager while the run holds the claim.
        PlannedFailoverStalledManagerAbsent,
        /// Ended with a terminal marker.
        PlannedFailoverStatusStalled,
        /// An older block was refused.
        PlannedFailoverLegacyRunRefused,
        /// Automation is held.
        PlannedFailoverManualRecoveryRequired,
        /// A hold still stands.
        PlannedFailoverHoldPersisted,
        /// The acknowledgement named another run or no hold.
        PlannedFailoverHoldAcknowledgmentIgnored,
        /// The hold was cleared.
        PlannedFailoverHoldAcknowledged,
    }
);

impl EventReason {
    /// Whether the Event's type is `Warning` rather than `Normal` (PF-OBS-04).
    pub const fn is_warning(self) -> bool {
        match self {
            Self::PlannedFailoverStarted
            | Self::PlannedFailoverSkipped
            | Self::PlannedFailoverDeferred
            | Self::PlannedFailoverAdmissionDelayed
            | Self::PlannedFailoverClaimGranted
            | Self::PlannedFailoverDrainStarted
            | Self::PlannedFailoverTargetCaughtUp
            | Self::PlannedFailoverSucceeded
            | Self::PlannedFailoverHoldAcknowledged => false,
            Self::PlannedFailoverRejected
            | Self::PlannedFailoverRollbackStarted
            | Self::PlannedFailoverFailed
            | Self::PlannedFailoverDNSUpdateFailed
            | Self::PlannedFailoverPromotionConfirmationFailed
            | Self::PlannedFailoverStalledManagerAbsent
            | Self::PlannedFailoverStatusStalled
            | Self::PlannedFailoverLegacyRunRefused
            | Self::PlannedFailoverManualRecoveryRequired
            | Self::PlannedFailoverHoldPersisted
            | Self::PlannedFailoverHoldAcknowledgmentIgnored => true,
        }
    }
}
