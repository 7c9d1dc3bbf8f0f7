//! Every end that a planned failover can be brought to on real servers, and what the servers say afterwards.
//!
//! One stack serves as many ends as do not disturb each other. Each test is judged by the ledger, by the record, and by
//! who answers writable in the end; by Events and metrics where a refusal shows in nothing else.

mod blocked;
mod left_fenced;
mod not_started;
mod rolled_back;
mod succeeded;
mod support;
mod writer;
