//! The id of a message: `<runid>/<revision>/<name>/<attempt>`.

use std::fmt;

use bloodraven_types::{Revision, RunId};

/// What makes two copies the same message. Its text is the envelope's `id` and the `Nats-Msg-Id` header.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The run that the message speaks of.
    pub run_id: RunId,
    /// The revision of the record that it was derived from or answers.
    pub revision: Revision,
    /// The name of the fact, command or record; no two kinds share one.
    pub name: &'static str,
    /// Which telling of that name it is; see the module `v1`.
    pub attempt: u64,
}

impl MessageId {
    /// W3C Trace Context of the message: the run is the trace, so that every binary's part of a run is found under
    /// one id without asking the others, and the message is the span that its handling belongs to.
    pub fn traceparent(&self) -> String {
        // FNV-1a: any fixed function of the id does, it only has to be the same everywhere.
        let span = self.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("00-{}-{:016x}-01", self.run_id.as_uuid().simple(), span.max(1))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.run_id, self.revision, self.name, self.attempt)
    }
}
