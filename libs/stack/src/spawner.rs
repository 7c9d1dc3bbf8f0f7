//! Starts processes that the kernel ends when this program ends, however it ends.
//!
//! The kernel's rule is bound to the *thread* that starts the process, and threads of a runtime come and go, so one
//! thread that lives as long as the program starts them all.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Request = (Command, Sender<io::Result<Child>>);

/// A command line that runs `program` and is killed with this program. Add arguments and give it to [`spawn`].
pub(crate) fn bound_to_this_program(program: &std::path::Path) -> Command {
    // setpriv(1) asks the kernel for the signal and then becomes the program, so the process id is the program's.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Starts a process from the thread that does nothing else.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, answer) in requests {
                // Whoever asked has gone when the answer cannot be given; the child is then ended by its own Drop's owner.
                if let Err(unwanted) = answer.send(command.spawn())
                    && let Ok(mut child) = unwanted.0
                {
                    let _ = child.kill();
                }
            }
        });
        sender
    });
    let (answer, answered) = channel();
    let gone = || io::Error::other("the thread that starts processes is gone");
    spawner.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}
