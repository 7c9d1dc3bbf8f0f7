//! Which run, and which state of it, a message speaks of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::group::Group;
use crate::ids::{Epoch, GroupKey, ObjectUid, Revision, RunId};

/// Which run, and which state of it, a message speaks of. It is checked before anything else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRef {
    /// The group.
    pub group: GroupKey,
    /// Which object of that name.
    pub uid: ObjectUid,
    /// The run.
    pub run_id: RunId,
    /// The revision of the record that the message was derived from or answers.
    pub revision: Revision,
    /// The claim's epoch at that revision.
    pub epoch: Epoch,
}

impl RunRef {
    /// The latest run of a group, as this read of it shows it.
    pub fn of(group: &Group) -> Option<Self> {
        let run = group.run()?;
        Some(Self {
            group: group.key.clone(),
            uid: group.uid.clone(),
            run_id: run.run_id,
            revision: run.revision,
            epoch: group.epoch(),
        })
    }
}
