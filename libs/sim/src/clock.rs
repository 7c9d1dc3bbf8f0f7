//! The clock of a world: virtual time, and a wall clock that can be set.

use std::time::Duration;

use bloodraven_ports::Clock;
use bloodraven_types::Timestamp;

use crate::world::World;

/// The clock of a world.
#[derive(Clone)]
pub struct SimClock(World);

impl SimClock {
    pub(crate) const fn new(world: World) -> Self {
        Self(world)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let began = self.0.state().began;
        began.after(self.0.time.now())
    }

    fn monotonic(&self) -> Duration {
        self.0.time.now()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.0.time.sleep(duration)
    }
}
