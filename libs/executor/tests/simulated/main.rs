//! The procedures, the keeper and whole runs in a virtual world: no server, no sleep, the same story for the same seed.

mod story;
