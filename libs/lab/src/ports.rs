//! Port numbers for a lab: each lab reserves a block below the kernel's ephemeral range, so that two labs side by side
//! never meet and a killed server finds its port free again; and who holds a port that was asked for by number.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::files::{self, cache_dir};

/// All labs take their ports from here. Linux hands out ephemeral ports from 32768 upwards.
const RANGE: Range<u16> = 20_000..32_000;
/// Ports that one lab reserves.
const BLOCK: u16 = 50;

/// The ports of one lab while it is being planned.
pub(crate) struct PortPlan {
    next: u16,
    end: u16,
    explicit: BTreeMap<String, u16>,
    taken: Vec<u16>,
}

impl PortPlan {
    /// Reserves a block for the lab whose state is in `lab_dir`. `explicit` maps port names (`mysql-iad`,
    /// `mysql-iad-admin`, `nats-1`, …) to numbers that the caller insists on.
    pub(crate) fn reserve(lab_dir: &Path, explicit: &BTreeMap<String, u16>) -> Result<Self, LabError> {
        let folder = reservations();
        files::create_dir(&folder)?;
        let lock_path = folder.join("lock");
        let lock = fs::File::create(&lock_path).map_err(|source| LabError::io("create", &lock_path, source))?;
        lock.lock().map_err(|source| LabError::io("lock", &lock_path, source))?;
        for first in RANGE.step_by(usize::from(BLOCK)) {
            let file = folder.join(first.to_string());
            let holder = fs::read_to_string(&file).ok();
            if holder.is_some_and(|dir| Path::new(dir.trim()).is_dir()) {
                continue;
            }
            fs::write(&file, lab_dir.display().to_string()).map_err(|source| LabError::io("write", &file, source))?;
            return Ok(Self {
                next: first,
                end: first + BLOCK,
                explicit: explicit.clone(),
                taken: Vec::new(),
            });
        }
        Err(LabError::Option {
            option: "name",
            reason: "too many labs are up: no block of ports is left".to_owned(),
        })
    }

    /// A port for `name` on `host`: the one that was asked for, else the next free one of the block.
    pub(crate) fn take(&mut self, name: &str, host: IpAddr) -> Result<u16, LabError> {
        if let Some(port) = self.explicit.remove(name) {
            let address = SocketAddr::new(host, port);
            self.check_explicit(name, address)?;
            self.taken.push(port);
            return Ok(port);
        }
        let first = self.next;
        while self.next < self.end {
            let port = self.next;
            self.next += 1;
            if !self.taken.contains(&port) && TcpListener::bind(SocketAddr::new(host, port)).is_ok() {
                self.taken.push(port);
                return Ok(port);
            }
        }
        Err(LabError::NoFreePort {
            port: name.to_owned(),
            host,
            first,
            last: self.end,
        })
    }

    /// Refuses a port that was asked for and cannot be listened on.
    fn check_explicit(&self, name: &str, address: SocketAddr) -> Result<(), LabError> {
        let taken_by = |holder| LabError::PortTaken {
            port: name.to_owned(),
            address,
            holder,
        };
        if self.taken.contains(&address.port()) {
            return Err(taken_by("another server of this lab".to_owned()));
        }
        match TcpListener::bind(address) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(taken_by(holder_of(address))),
            Err(error) => Err(LabError::io("listen on", Path::new(&address.to_string()), error)),
        }
    }

    /// Ends the plan; a port that was asked for under a name which nothing uses is an error.
    pub(crate) fn finish(self) -> Result<(), LabError> {
        match self.explicit.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(LabError::Option {
                option: "ports",
                reason: format!("this lab has no port named {name}"),
            }),
        }
    }
}

/// Gives the block of the lab in `lab_dir` back.
pub(crate) fn release(lab_dir: &Path) {
    for entry in fs::read_dir(reservations()).into_iter().flatten().flatten() {
        let held = fs::read_to_string(entry.path()).unwrap_or_default();
        if Path::new(held.trim()) == lab_dir {
            // A reservation whose lab is gone is taken over by the next lab anyway.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn reservations() -> PathBuf {
    cache_dir().join("ports")
}

/// Describes the process that listens on `address`, e.g. `python3 (pid 4711: python3 -m http.server)`.
pub(crate) fn holder_of(address: SocketAddr) -> String {
    let Some((inode, user)) = listening_socket(address.port()) else {
        return "a connection that no process listens for".to_owned();
    };
    let link = format!("socket:[{inode}]");
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        // "self" and the like name a process a second time.
        if !entry
            .file_name()
            .to_string_lossy()
            .bytes()
            .all(|byte| byte.is_ascii_digit())
        {
            continue;
        }
        let holds = fs::read_dir(entry.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target.as_os_str() == link.as_str()));
        if holds {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            return format!("{} (pid {}: {})", name.trim(), entry.file_name().display(), line.trim());
        }
    }
    format!("a process of user id {user} that cannot be looked into")
}

/// Inode and owner of the socket that listens on `port`, on any address.
fn listening_socket(port: u16) -> Option<(u64, u32)> {
    const LISTEN: &str = "0A";
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let matches = u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == LISTEN;
        matches
            .then(|| Some((fields.get(9)?.parse().ok()?, fields.get(7)?.parse().ok()?)))
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::holder_of;

    /// The holder of a port is found by its socket: here it is this very test.
    #[test]
    fn holder_of_a_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = holder_of(listener.local_addr().unwrap());
        assert!(holder.contains(&format!("pid {}:", std::process::id())), "{holder}");
    }
}
