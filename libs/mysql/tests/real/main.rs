//! The adapter against real servers of the lab.
// `cfg(test)` is always set here; it is what tells clippy that helpers may panic as tests do.

#[cfg(test)]
mod authority;
#[cfg(test)]
mod blockers;
#[cfg(test)]
mod fence;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod replication;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod statements;
