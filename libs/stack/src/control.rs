//! Ill-treating and reviving programs, and looking at what they say.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

use futures::future::try_join_all;
use nix::sys::signal::Signal;

use crate::error::StackError;
use crate::logs::{self, LogLine};
use crate::process::{self, Plan, Process};
use crate::program::Program;
use crate::stack::{Slot, Stack};

impl Stack {
    /// Kills all replicas of a program, as a crash does.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn kill(&self, program: Program) -> Result<(), StackError> {
        let processes = self.take(program)?;
        let killing =
            tokio::task::spawn_blocking(move || processes.into_iter().for_each(|(_, process)| process.kill()));
        killing
            .await
            .map_err(|error| StackError::io("kill", Path::new(program.name()), error.into()))
    }

    /// Asks all replicas of a program to stop, and waits until they have.
    ///
    /// # Errors
    /// When it does not run, ends with an error, or does not stop in time.
    pub async fn stop(&self, program: Program) -> Result<(), StackError> {
        try_join_all(self.take(program)?.into_iter().map(|(_, process)| process.stop()))
            .await
            .map(drop)
    }

    /// Starts all replicas of a program that do not run, and waits until they are ready.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start(&self, program: Program) -> Result<(), StackError> {
        let idle: Vec<(usize, Plan)> = {
            let processes = self.lock();
            let slots = processes.get(&program).map(Vec::as_slice).unwrap_or_default();
            let idle = slots.iter().enumerate().filter(|(_, slot)| slot.process.is_none());
            idle.map(|(index, slot)| (index, slot.plan.clone())).collect()
        };
        if idle.is_empty() {
            return Err(StackError::State {
                program,
                state: "runs already, or is no part of this stack",
            });
        }
        let started = try_join_all(idle.into_iter().map(async |(index, plan)| {
            let mut process = Process::start(&plan)?;
            process.await_ready().await?;
            Ok::<_, StackError>((index, process))
        }))
        .await?;
        let mut processes = self.lock();
        for (index, process) in started {
            if let Some(slot) = processes.get_mut(&program).and_then(|slots| slots.get_mut(index)) {
                slot.process = Some(process);
            }
        }
        Ok(())
    }

    /// Kills a program and starts it again.
    ///
    /// # Errors
    /// As [`Stack::kill`] and [`Stack::start`].
    pub async fn restart(&self, program: Program) -> Result<(), StackError> {
        self.kill(program).await?;
        self.start(program).await
    }

    /// Freezes all replicas of a program (`SIGSTOP`).
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, program: Program) -> Result<(), StackError> {
        self.signal(program, Signal::SIGSTOP)
    }

    /// Lets a frozen program go on (`SIGCONT`).
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self, program: Program) -> Result<(), StackError> {
        self.signal(program, Signal::SIGCONT)
    }

    /// The process ids of a program's running replicas.
    #[must_use]
    pub fn pids(&self, program: Program) -> Vec<u32> {
        let processes = self.lock();
        let slots = processes.get(&program).into_iter().flatten();
        slots
            .filter_map(|slot| slot.process.as_ref().map(Process::pid))
            .collect()
    }

    /// What a path of the first replica's admin endpoints answers, such as `/metrics`.
    ///
    /// # Errors
    /// When it does not run or does not answer.
    pub async fn admin(&self, program: Program, path: &str) -> Result<String, StackError> {
        let address = {
            let processes = self.lock();
            let slot = processes.get(&program).and_then(|slots| slots.first());
            slot.and_then(|slot| slot.process.as_ref())
                .and_then(Process::admin_address)
        };
        let address = address.ok_or(StackError::State {
            program,
            state: "does not serve admin endpoints",
        })?;
        let (_, body) = process::get(address, path)
            .await
            .map_err(|source| StackError::io("read", Path::new(path), source))?;
        Ok(body)
    }

    /// Every line that a program has logged, all replicas and starts together.
    #[must_use]
    pub fn logs(&self, program: Program) -> Vec<LogLine> {
        let plans: Vec<Plan> = self
            .lock()
            .get(&program)
            .into_iter()
            .flatten()
            .map(|slot| slot.plan.clone())
            .collect();
        plans
            .iter()
            .flat_map(|plan| logs::read(program, &plan.log, 0))
            .collect()
    }

    /// Every error that any program has logged.
    #[must_use]
    pub fn errors(&self) -> Vec<LogLine> {
        Program::ALL
            .iter()
            .flat_map(|program| self.logs(*program))
            .filter(LogLine::is_error)
            .collect()
    }

    /// An error when a program has ended that nobody has ended.
    ///
    /// # Errors
    /// `Ended` for the first one, with the end of its log.
    pub fn check_running(&self) -> Result<(), StackError> {
        let mut processes = self.lock();
        let mut running = processes
            .values_mut()
            .flatten()
            .filter_map(|slot| slot.process.as_mut());
        running.try_for_each(Process::check_running)
    }

    fn signal(&self, program: Program, signal: Signal) -> Result<(), StackError> {
        let processes = self.lock();
        let mut running = processes
            .get(&program)
            .into_iter()
            .flatten()
            .filter_map(|slot| slot.process.as_ref())
            .peekable();
        if running.peek().is_none() {
            return Err(StackError::State {
                program,
                state: "does not run",
            });
        }
        running.for_each(|process| process.signal(signal));
        Ok(())
    }

    /// Takes the running replicas out of their slots.
    fn take(&self, program: Program) -> Result<Vec<(usize, Process)>, StackError> {
        let mut processes = self.lock();
        let slots = processes.get_mut(&program).into_iter().flatten().enumerate();
        let taken: Vec<_> = slots
            .filter_map(|(index, slot)| Some((index, slot.process.take()?)))
            .collect();
        if taken.is_empty() {
            return Err(StackError::State {
                program,
                state: "does not run",
            });
        }
        Ok(taken)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<Program, Vec<Slot>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
