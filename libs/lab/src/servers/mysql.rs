//! MySQL servers: the data folder's template, the configuration file, the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::LabError;
use crate::files;
use crate::install::{ExtractedTree, Part, run};
use crate::options::{LabOptions, SiteOptions};
use crate::ports::PortPlan;
use crate::process::{ProcessName, ProcessSpec};
use crate::state::MysqlNode;

/// Longest path of a Unix socket.
const SOCKET_PATH_LENGTH: usize = 107;
/// Redo log that initialisation needs to run without stalls.
const INITIAL_REDO_CAPACITY: &str = "64M";

/// Plans the server of a site: ports, files, identity.
pub(crate) fn plan(
    lab_dir: &Path,
    options: &LabOptions,
    index: usize,
    site: &SiteOptions,
    ports: &mut PortPlan,
) -> Result<(MysqlNode, ProcessSpec), LabError> {
    let name = ProcessName::mysql(&site.name);
    let dir = lab_dir.join(name.to_string());
    let server_id = u32::try_from(index + 1).unwrap_or(u32::MAX);
    let node = MysqlNode {
        site: site.name.clone(),
        role: site.role,
        host: site.host,
        port: ports.take(&name.to_string(), site.host)?,
        admin_port: ports.take(&format!("{name}-admin"), site.host)?,
        server_uuid: random_uuid()?,
        server_id,
        socket: dir.join("mysqld.sock"),
        data_dir: dir.join("data"),
        config_file: dir.join("my.cnf"),
        log: dir.join("mysqld.log"),
    };
    if node.socket.as_os_str().len() > SOCKET_PATH_LENGTH {
        let reason = format!("{} is too long for a Unix socket", node.socket.display());
        return Err(LabError::Option {
            option: "base_dir",
            reason,
        });
    }
    let tree = ExtractedTree::of(Part::Mysql)?;
    let mut command = tree.command("usr/sbin/mysqld")?.into_iter();
    let program = PathBuf::from(command.next().unwrap_or_default());
    let args = command
        .chain([format!("--defaults-file={}", node.config_file.display())])
        .collect();
    files::create_private_dir(&dir).map_err(|source| LabError::io("create", &dir, source))?;
    let text = format!(
        "{}{}\n",
        configuration(&tree, &node, options),
        options.mysqld_config.join("\n")
    );
    files::write_private(&node.config_file, text.as_bytes())?;
    let listening = [
        ("mysql".to_owned(), node.address()),
        ("admin".to_owned(), node.admin_address()),
    ];
    let spec = ProcessSpec {
        name,
        program,
        args,
        log: node.log.clone(),
        ports: listening.into(),
        // A server that was killed leaves its lock, and refuses to start while the process in it looks alive.
        stale_files: vec![node.socket.clone(), dir.join("mysqld.sock.lock")],
        dir,
    };
    Ok((node, spec))
}

/// Gives a planned server its data: a copy of the template with an identity of its own.
pub(crate) fn unpack_data(node: &MysqlNode, template: &Path) -> Result<(), LabError> {
    files::create_dir(&node.data_dir)?;
    let mut tar = Command::new("tar");
    tar.arg("--directory")
        .arg(&node.data_dir)
        .args(["--extract", "--file"])
        .arg(template);
    run(&format!("mysql-{}", node.site), &mut tar)?;
    let identity = format!("[auto]\nserver-uuid={}\n", node.server_uuid);
    files::write_private(&node.data_dir.join("auto.cnf"), identity.as_bytes())
}

/// The archive of an initialised data folder; made once for each version of the server.
pub(crate) fn template() -> Result<PathBuf, LabError> {
    let tree = ExtractedTree::of(Part::Mysql)?;
    let dir = Part::Mysql.dir();
    let version = run("mysql", tree.std_command("usr/sbin/mysqld")?.arg("--version"))?;
    let version = version.split_whitespace().nth(2).unwrap_or("unknown").to_owned();
    let archive = dir.join(format!("template-{version}.tar"));
    if archive.is_file() {
        return Ok(archive);
    }
    let lock_path = dir.join("template.lock");
    let lock = fs::File::create(&lock_path).map_err(|source| LabError::io("create", &lock_path, source))?;
    lock.lock().map_err(|source| LabError::io("lock", &lock_path, source))?;
    if !archive.is_file() {
        make_template(&tree, &archive)?;
    }
    Ok(archive)
}

fn make_template(tree: &ExtractedTree, archive: &Path) -> Result<(), LabError> {
    let scratch = tempfile::Builder::new()
        .prefix("bloodraven-template-")
        .tempdir()
        .map_err(|source| LabError::io("create a folder in", &std::env::temp_dir(), source))?;
    let data = scratch.path().join("data");
    let config = scratch.path().join("my.cnf");
    let mut text = folders(tree);
    text.push_str(&format!("datadir={}\n", data.display()));
    text.push_str("innodb_temp_data_file_path=ibtmp1:12M:autoextend\nperformance_schema=OFF\nmysqlx=OFF\n");
    text.push_str(&format!("innodb_redo_log_capacity={INITIAL_REDO_CAPACITY}\n"));
    files::write_private(&config, text.as_bytes())?;
    let mut initialise = tree.std_command("usr/sbin/mysqld")?;
    initialise
        .arg(format!("--defaults-file={}", config.display()))
        .args(["--initialize-insecure", "--skip-log-bin"]);
    run("mysql", &mut initialise)?;
    // Left out: what identifies one server, and spare files that every server makes for itself.
    let temporary = archive.with_extension("new");
    let mut tar = Command::new("tar");
    tar.args([
        "--exclude=./auto.cnf",
        "--exclude=./ibtmp1",
        "--exclude=./#innodb_redo/*_tmp",
        "--sparse",
        "--create",
    ]);
    run(
        "mysql",
        tar.arg("--directory").arg(&data).arg("--file").arg(&temporary).arg("."),
    )?;
    fs::rename(&temporary, archive).map_err(|source| LabError::io("rename", &temporary, source))
}

/// Where the server finds its own files, and whom it runs as.
fn folders(tree: &ExtractedTree) -> String {
    let root = tree.path("usr");
    let root = root.display();
    let user = if nix::unistd::geteuid().is_root() {
        "user=root\n"
    } else {
        ""
    };
    format!(
        "[mysqld]\nbasedir={root}\nplugin_dir={root}/lib/mysql/plugin\nlc_messages_dir={root}/share/mysql\n\
         character_sets_dir={root}/share/mysql/charsets\nsecure_file_priv=NULL\n{user}"
    )
}

/// The configuration of a server: GTID replication, read-only at boot, small buffers, real durability.
fn configuration(tree: &ExtractedTree, node: &MysqlNode, options: &LabOptions) -> String {
    let performance_schema = if options.performance_schema { "ON" } else { "OFF" };
    let mut text = folders(tree);
    let own = [
        format!("datadir={}", node.data_dir.display()),
        format!("socket={}", node.socket.display()),
        format!("pid_file={}", node.socket.with_extension("pid").display()),
        format!("log_error={}", node.log.display()),
        format!("bind_address={}", node.host),
        format!("port={}", node.port),
        format!("admin_address={}", node.host),
        format!("admin_port={}", node.admin_port),
        format!("server_id={}", node.server_id),
        format!("report_host={}", node.host),
        format!("report_port={}", node.port),
        format!("performance_schema={performance_schema}"),
    ];
    text.push_str(&own.join("\n"));
    text.push('\n');
    text.push_str(FIXED_CONFIGURATION);
    text
}

/// The lines that are the same on every server.
const FIXED_CONFIGURATION: &str = "\
mysqlx=OFF
skip_name_resolve=ON
host_cache_size=0

# A server is opened by its controller, never by its own start.
super_read_only=ON
gtid_mode=ON
enforce_gtid_consistency=ON
binlog_format=ROW
log_bin=binlog
log_replica_updates=ON
binlog_expire_logs_seconds=86400
relay_log_recovery=ON
skip_replica_start=OFF
replica_parallel_workers=2
replica_preserve_commit_order=ON
replica_net_timeout=4
plugin_load_add=semisync_source.so;semisync_replica.so;mysql_clone.so
event_scheduler=ON

# Acknowledged means on disk.
sync_binlog=1
innodb_flush_log_at_trx_commit=1

max_connections=150
innodb_buffer_pool_size=64M
innodb_redo_log_capacity=32M
innodb_log_buffer_size=1M
innodb_temp_data_file_path=ibtmp1:12M:autoextend
innodb_buffer_pool_dump_at_shutdown=OFF
innodb_buffer_pool_load_at_startup=OFF
table_open_cache=200
table_definition_cache=400
key_buffer_size=1M
thread_cache_size=16
tmp_table_size=1M
temptable_max_ram=2M
";

/// A random version 4 UUID in text form.
fn random_uuid() -> Result<String, LabError> {
    let hex = files::random_hex(16)?;
    let part = |range| hex.get(range).unwrap_or_default();
    Ok(format!(
        "{}-{}-4{}-8{}-{}",
        part(0..8),
        part(8..12),
        part(13..16),
        part(17..20),
        part(20..32)
    ))
}

#[cfg(test)]
mod tests {
    use super::random_uuid;

    /// Server UUIDs have the form MySQL accepts and are distinct.
    #[test]
    fn uuids_are_well_formed() {
        let uuid = random_uuid().unwrap();
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_ne!(uuid, random_uuid().unwrap());
    }
}
