//! The [`Database`](bloodraven_ports::Database) port over `mysql_async`: one pinned connection for each session.
//!
//! ```text
//! MysqlDatabase ─opens─► MysqlSession ─requests─► worker (owns the connection) ──► server
//!                                                   └─ timeout, loss, cancellation ─► settle: side connection, KILL, seen gone
//! ```
//!
//! # Nothing is abandoned
//!
//! A statement is sent by a task that owns the connection, never by the caller's future. When the statement takes too
//! long, when its connection breaks, or when the caller drops its future in the middle, that task opens another
//! connection with the same account, kills the session by its id and waits until it is gone. So a statement that the
//! caller has given up cannot take effect later, unless the answer was
//! [`DatabaseError::Unsettled`](bloodraven_ports::DatabaseError::Unsettled). (A task dies with its runtime: a process
//! that exits leaves its statement to the server, where locks are waited for one second at most.)
//!
//! Connection ids start anew when a server restarts, and an address can lead to another server tomorrow. So each session
//! holds a user-level lock named after a UUID that the server made for it: it is that lock, on a server with the same
//! `server_uuid`, that tells whether the session still exists.
//!
//! # Session settings
//!
//! `lock_wait_timeout` is 1 second for the whole session, so that a fence is one round trip; `max_execution_time` is 0,
//! so that a server-wide limit does not end a wait; `sql_mode` is empty, so that quoting means what we think it means.
//!
//! # Privileges of the controllers' account
//!
//! `PROCESS`, `CONNECTION_ADMIN`, `SYSTEM_VARIABLES_ADMIN`, `REPLICATION CLIENT`, `REPLICATION_SLAVE_ADMIN`, `RELOAD`
//! (for `RESET REPLICA ALL`) and `SELECT` on `performance_schema`; besides `SERVICE_CONNECTION_ADMIN` for the administrative
//! port, and `SYSTEM_USER` if sessions of accounts that have it are to be ended. Without `PROCESS` the sessions of others
//! are invisible.

mod blockers;
mod connector;
mod database;
mod host;
mod options;
mod rows;
mod session;
mod settle;
mod statement;
mod worker;

pub use database::MysqlDatabase;
pub use host::{Host, InvalidHost};
pub use options::{ClientTls, MysqlOptions, ReplicationTls};
pub use session::MysqlSession;
