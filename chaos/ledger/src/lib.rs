//! The ledger: it writes through a failover as an application would, remembers every acknowledgement outside the
//! group, and judges afterwards what became of what the clients were promised.
//!
//! [`Ledger::start`] runs writers that hold **one connection each**, insert one row per tick and record each
//! acknowledged write in a SQLite file that no failover can touch. [`report`] reads that file and the surviving
//! history and says how long nobody could write, whether two servers acknowledged at once, and which acknowledged
//! writes are intact, GONE or STOLEN. [`judge`] is the same without a socket.
//!
//! # What is recorded
//!
//! Every write has a key of its own and **one attempt**: a write that errors is never retried under its key, the next
//! write has a new one. So a key is acknowledged, refused or of unknown outcome, and never two of them.
//! * *acknowledged*: the server answered OK. Its time is taken when the answer arrives, not when it is stored.
//! * *refused*: the server answered with an error that says the row was not committed (1290, for one).
//! * *unknown*: the connection was lost, or the statement timed out, between send and answer; or the answer is an error
//!   that leaves the commit open. An unknown write was promised to nobody: present or absent, it is no damage.
//!
//! # What is damage
//!
//! An acknowledged write is a promise: "row `id` holds your key". Looked up by its id in the surviving history it is
//! *intact* (same key), *STOLEN* (the id holds another key) or *GONE* (no such id).
//!
//! How overlap and outage are defined stands in [`overlap`] and [`outage`].
//!
//! # Use
//!
//! ```no_run
//! use bloodraven_ledger::{Ledger, Options, Survivor, connect, prepare, report};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::new(vec!["127.0.0.1:3306".to_owned()], "app", "secret".into());
//! let mut primary = connect("127.0.0.1:20000", &options.user, &options.password).await?;
//! prepare(&mut primary, &options.table_name()?).await?;
//!
//! let store = std::path::Path::new("ledger.sqlite");
//! let running = Ledger::start(&options, store)?;
//! let before = running.now();
//! // … the switchover …
//! let after = running.now();
//! running.stop().await?;
//!
//! let (name, endpoint) = ("pdx".to_owned(), "127.0.0.1:20002".to_owned());
//! let survivor = Survivor { name, endpoint, user: options.user, password: options.password };
//! let report = report(store, &[survivor]).await?;
//! println!("{report}");
//! println!("{:?}", report.outage_between(before, after));
//! assert!(report.is_clean());
//! # Ok(())
//! # }
//! ```

mod classify;
mod clock;
mod display;
mod error;
mod history;
mod judge;
mod load;
mod options;
pub mod outage;
pub mod overlap;
mod report;
mod running;
mod store;
mod table;
mod writer;

pub use clock::Moment;
pub use error::LedgerError;
pub use history::{
    Acknowledged, Activity, ConnectFailure, History, ServerUuid, SessionNumber, Unconfirmed, UnconfirmedKind, WriteKey,
    WriterNumber,
};
pub use judge::judge;
pub use load::load;
pub use options::{Endpoint, Options, TableName};
pub use report::{
    DamagedWrite, ErrorCount, Period, Presence, Report, ServerReport, SurvivorReport, WriterReport, report,
};
pub use running::{Counts, Ledger, Running};
pub use table::{SurvivingRow, SurvivingTable, Survivor, connect, prepare, read};
