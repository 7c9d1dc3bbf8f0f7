//! Valkey servers: one for each site, the first one the primary of the others.

use std::path::Path;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::LabError;
use crate::files;
use crate::install::{ExtractedTree, Part};
use crate::options::SiteOptions;
use crate::ports::PortPlan;
use crate::process::{ProcessName, ProcessSpec};
use crate::state::{Account, ValkeyNode};

/// Plans the server of a site; `primary` is the server it follows.
pub(crate) fn plan(
    lab_dir: &Path,
    site: &SiteOptions,
    primary: Option<&ValkeyNode>,
    account: &Account,
    ports: &mut PortPlan,
) -> Result<(ValkeyNode, ProcessSpec), LabError> {
    let name = ProcessName::valkey(&site.name);
    let dir = lab_dir.join(name.to_string());
    let node = ValkeyNode {
        site: site.name.clone(),
        host: site.host,
        port: ports.take(&name.to_string(), site.host)?,
        log: dir.join("valkey.log"),
    };
    let mut command = ExtractedTree::of(Part::Valkey)?
        .command("usr/bin/valkey-server")?
        .into_iter();
    let program = PathBuf::from(command.next().unwrap_or_default());
    files::create_private_dir(&dir).map_err(|source| LabError::io("create", &dir, source))?;
    let config = dir.join("valkey.conf");
    let follow = primary
        .map(|primary| format!("replicaof {} {}\n", primary.host, primary.port))
        .unwrap_or_default();
    let password = &account.password;
    let text = format!(
        "bind {host}\nport {port}\ndir {dir}\nlogfile {log}\ndaemonize no\nsave \"\"\nappendonly no\nprotected-mode no\n\
         requirepass {password}\nprimaryauth {password}\nrepl-diskless-sync-delay 0\n{follow}",
        host = node.host,
        port = node.port,
        dir = dir.display(),
        log = node.log.display(),
    );
    files::write_private(&config, text.as_bytes())?;
    let spec = ProcessSpec {
        name,
        program,
        args: command.chain([config.display().to_string()]).collect(),
        log: node.log.clone(),
        ports: [("valkey".to_owned(), node.address())].into(),
        stale_files: Vec::new(),
        dir,
    };
    Ok((node, spec))
}

/// Whether the server answers commands.
pub(crate) async fn is_ready(node: &ValkeyNode, account: &Account) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(node.address()).await?;
        stream
            .write_all(format!("AUTH {}\r\nPING\r\n", account.password).as_bytes())
            .await?;
        let mut answer = [0_u8; b"+OK\r\n+PONG\r\n".len()];
        stream.read_exact(&mut answer).await?;
        Ok::<bool, std::io::Error>(answer == *b"+OK\r\n+PONG\r\n")
    };
    tokio::time::timeout(std::time::Duration::from_secs(1), ask)
        .await
        .is_ok_and(|result| result.unwrap_or(false))
}
