//! A relay before a server's administrative port that stops one chosen statement, so that a process can be killed while
//! the statement is under way: before the server has it, or when it is done and its sender does not know yet.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Statements are short; what is larger is a result, which is only passed on.
const BUFFER: usize = 64 * 1024;
/// How long the awaited statement may take to come.
const REACH_BUDGET: Duration = Duration::from_secs(20);

/// Where a statement is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is only noticed, so that what follows happens while the server works on it.
    Nowhere,
    /// Before the server has it. A sender that dies meanwhile has never sent it.
    Before,
    /// After the server has carried it out. A sender that dies meanwhile has never heard of it.
    After,
}

/// A relay before one server.
#[derive(Debug)]
pub(crate) struct Gate {
    address: SocketAddr,
    rule: Arc<Mutex<Option<Rule>>>,
    task: JoinHandle<()>,
}

/// A statement that is waited for, and held from then on until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    text: &'static str,
    reached: oneshot::Receiver<()>,
    _release: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Rule {
    text: &'static str,
    stop: Stop,
    reached: oneshot::Sender<()>,
    release: oneshot::Receiver<()>,
}

impl Gate {
    /// A relay to that server, which need not be there yet.
    pub(crate) async fn open(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((server.ip(), 0)).await?;
        let address = listener.local_addr()?;
        let rule: Arc<Mutex<Option<Rule>>> = Arc::default();
        let rules = Arc::clone(&rule);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let rules = Arc::clone(&rules);
                // A connection that breaks is the client's to notice.
                tokio::spawn(async move { relay(client, server, &rules).await.ok() });
            }
        });
        Ok(Self { address, rule, task })
    }

    /// Where clients connect.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the next statement that has this text in it, on whichever connection; an earlier rule is forgotten.
    pub(crate) fn stop_next(&self, text: &'static str, stop: Stop) -> Held {
        let (reached_sender, reached) = oneshot::channel();
        let (release, released) = oneshot::channel();
        let rule = Rule {
            text,
            stop,
            reached: reached_sender,
            release: released,
        };
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = Some(rule);
        Held {
            text,
            reached,
            _release: release,
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Held {
    /// Waits until the statement is stopped.
    pub(crate) async fn reached(&mut self) -> Result<(), String> {
        match tokio::time::timeout(REACH_BUDGET, &mut self.reached).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(format!("the rule for {:?} was replaced", self.text)),
            Err(_) => Err(format!("no statement with {:?} within {REACH_BUDGET:?}", self.text)),
        }
    }
}

impl Rule {
    /// Says that the statement is here and waits for its release; false when the client has gone meanwhile.
    async fn hold(self, client: &TcpStream) -> bool {
        let _ = self.reached.send(());
        tokio::select! {
            _ = self.release => true,
            () = gone(client) => false,
        }
    }
}

/// Takes the rule when the bytes hold its text and it is still wanted.
fn take(rules: &Mutex<Option<Rule>>, bytes: &[u8]) -> Option<Rule> {
    let mut rule = rules.lock().unwrap_or_else(PoisonError::into_inner);
    rule.take_if(|rule| {
        let text = rule.text.as_bytes();
        !rule.reached.is_closed() && bytes.windows(text.len()).any(|window| window == text)
    })
}

/// Completes when the client has closed its side or died. A client that waits for an answer says nothing else.
async fn gone(client: &TcpStream) {
    let mut one = [0; 1];
    if let Ok(1) = client.peek(&mut one).await {
        std::future::pending::<()>().await;
    }
}

async fn relay(mut client: TcpStream, server: SocketAddr, rules: &Mutex<Option<Rule>>) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut request, mut answer) = (vec![0; BUFFER], vec![0; BUFFER]);
    let mut stopped: Option<Rule> = None;
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let bytes = request.get(..read?).unwrap_or_default();
                if bytes.is_empty() {
                    return Ok(());
                }
                if let Some(rule) = take(rules, bytes) {
                    match rule.stop {
                        Stop::Nowhere => drop(rule.reached.send(())),
                        Stop::Before => {
                            if !rule.hold(&client).await {
                                return Ok(());
                            }
                        }
                        Stop::After => stopped = Some(rule),
                    }
                }
                server.write_all(bytes).await?;
            }
            read = server.read(&mut answer) => {
                let bytes = answer.get(..read?).unwrap_or_default();
                if bytes.is_empty() {
                    return Ok(());
                }
                if let Some(rule) = stopped.take()
                    && !rule.hold(&client).await
                {
                    return Ok(());
                }
                client.write_all(bytes).await?;
            }
        }
    }
}
