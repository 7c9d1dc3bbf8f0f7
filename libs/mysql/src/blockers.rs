//! What a fence would wait for (X-PRE-01, reports B16, B19, B24), and what holds a lock that a failover had better not meet.
//!
//! Seen on 9.7: `SET GLOBAL super_read_only = ON` waits for statements that write, for commits under way, and for
//! `LOCK TABLES … WRITE`. It does not wait for open transactions, nor for `FLUSH TABLES WITH READ LOCK`, `LOCK TABLES … READ` or
//! `LOCK INSTANCE FOR BACKUP` of others; those are named all the same, since they keep a replica from applying and an
//! opened server from writing.
//!
//! Killing does not always help: a commit that waits for a semi-sync acknowledgement waits on in its killed session, and so
//! does the fence behind it. Only an acknowledgement, the timeout that was set when it began, or switching
//! `rpl_semi_sync_source_enabled` off ends that.
//!
//! The processlist shows statements and commits that wait for an acknowledgement. Locks of sessions that do nothing show only
//! in `performance_schema.metadata_locks`: where the performance schema or its instrument `wait/lock/metadata/sql/mdl` is off, such
//! a lock is not seen, and neither is a `SELECT` that calls a function that writes. Then the fence itself finds out, after one second.

use std::collections::BTreeMap;
use std::time::Duration;

use bloodraven_ports::BlockingSession;
use mysql_async::Row;

use crate::rows::{Answer, Malformation, column, seconds};

/// What each session does.
pub(crate) const STATEMENTS: &str = "SELECT id AS id, user AS user, command AS command, time AS time, state AS state, \
     LEFT(info, 4096) AS info FROM information_schema.processlist \
     WHERE id <> CONNECTION_ID() AND command NOT IN ('Binlog Dump', 'Binlog Dump GTID', 'Daemon')";

/// Which locks are held by sessions; empty where the performance schema is off.
pub(crate) const LOCKS: &str = "SELECT t.processlist_id AS id, t.processlist_user AS user, t.processlist_command AS command, \
     t.processlist_time AS time, m.object_type AS object_type, m.lock_type AS lock_type, \
     CONCAT_WS('.', m.object_schema, m.object_name) AS object \
     FROM performance_schema.metadata_locks m JOIN performance_schema.threads t ON t.thread_id = m.owner_thread_id \
     WHERE m.lock_status = 'GRANTED' AND t.processlist_id <> CONNECTION_ID() \
     AND (m.object_type IN ('GLOBAL', 'COMMIT', 'BACKUP LOCK') \
     OR (m.object_type = 'TABLE' AND m.lock_type IN ('SHARED_NO_READ_WRITE', 'SHARED_NO_WRITE', 'SHARED_READ_ONLY')))";

/// Words that begin a statement that writes, or that takes the locks of one.
const WRITING: [&str; 25] = [
    "ALTER",
    "ANALYZE",
    "CALL",
    "COMMIT",
    "CREATE",
    "DELETE",
    "DROP",
    "FLUSH",
    "GRANT",
    "IMPORT",
    "INSERT",
    "INSTALL",
    "LOAD",
    "LOCK",
    "OPTIMIZE",
    "RENAME",
    "REPAIR",
    "REPLACE",
    "RESTART",
    "REVOKE",
    "TRUNCATE",
    "UNINSTALL",
    "UPDATE",
    "XA",
    "EXECUTE",
];

/// The session of a row.
struct Who {
    id: u64,
    user: String,
    seconds: u64,
    sleeps: bool,
}

/// A metadata lock that a session holds.
struct HeldLock {
    who: Who,
    object_type: String,
    lock_type: String,
    object: String,
}

/// One blocker for each session, by its id. A lock says more than a statement, and a statement's first word more than that it writes.
pub(crate) fn blockers(answer: &Answer, longer_than: Duration) -> Result<Vec<BlockingSession>, Malformation> {
    let rows = |index: usize| answer.get(index).map_or(&[][..], Vec::as_slice);
    let locks = rows(1).iter().map(held_lock).collect::<Result<Vec<_>, _>>()?;
    let mut found = BTreeMap::new();
    for lock in &locks {
        add(&mut found, &lock.who, lock_blocks(lock, longer_than));
    }
    for row in rows(0) {
        let who = who(row)?;
        let state: Option<String> = column(row, "state")?;
        let info: Option<String> = column(row, "info")?;
        let what = statement_blocks(&who, state.as_deref(), info.as_deref(), longer_than);
        add(&mut found, &who, what);
    }
    for lock in &locks {
        add(&mut found, &lock.who, writer_blocks(lock, longer_than));
    }
    Ok(found.into_values().collect())
}

fn add(found: &mut BTreeMap<u64, BlockingSession>, who: &Who, what: Option<String>) {
    if let Some(what) = what {
        let Who { id, user, seconds, .. } = who;
        found.entry(*id).or_insert_with(|| BlockingSession {
            id: *id,
            user: user.clone(),
            what,
            seconds: *seconds,
        });
    }
}

fn held_lock(row: &Row) -> Result<HeldLock, Malformation> {
    Ok(HeldLock {
        who: who(row)?,
        object_type: column(row, "object_type")?,
        lock_type: column(row, "lock_type")?,
        object: column::<Option<String>>(row, "object")?.unwrap_or_default(),
    })
}

fn who(row: &Row) -> Result<Who, Malformation> {
    let command: Option<String> = column(row, "command")?;
    Ok(Who {
        id: column(row, "id")?,
        user: column::<Option<String>>(row, "user")?.unwrap_or_default(),
        seconds: seconds(row, "time")?,
        sleeps: command.as_deref() == Some("Sleep"),
    })
}

/// The statement's text may hold personal data or a password, so only its first word is told.
fn statement_blocks(who: &Who, state: Option<&str>, info: Option<&str>, longer_than: Duration) -> Option<String> {
    if who.sleeps || !has_run_for(who, longer_than) {
        return None;
    }
    let state = state.unwrap_or_default();
    if state.to_ascii_lowercase().contains("semi-sync ack") {
        return Some("a commit that waits for a semi-sync acknowledgement".to_owned());
    }
    let verb = verb(info?)?;
    WRITING
        .contains(&verb.as_str())
        .then(|| format!("{verb} (state: {state:?})"))
}

fn lock_blocks(lock: &HeldLock, longer_than: Duration) -> Option<String> {
    let object = &lock.object;
    match (lock.object_type.as_str(), lock.lock_type.as_str()) {
        ("GLOBAL" | "COMMIT", "SHARED") => Some("FLUSH TABLES WITH READ LOCK".to_owned()),
        ("BACKUP LOCK", "SHARED") => Some("LOCK INSTANCE FOR BACKUP".to_owned()),
        ("TABLE", "SHARED_NO_READ_WRITE") => Some(format!("LOCK TABLES {object} WRITE")),
        ("TABLE", "SHARED_READ_ONLY") => Some(format!("LOCK TABLES {object} READ")),
        // Held by FLUSH TABLES … WITH READ LOCK while the session sleeps, but by ALTER TABLE while it runs.
        ("TABLE", "SHARED_NO_WRITE") if lock.who.sleeps || has_run_for(&lock.who, longer_than) => {
            Some(format!("a lock that keeps others from writing to {object}"))
        }
        _ => None,
    }
}

/// Each statement that writes holds an intention lock on all of the server while it runs.
fn writer_blocks(lock: &HeldLock, longer_than: Duration) -> Option<String> {
    let writes = lock.object_type == "GLOBAL" && lock.lock_type == "INTENTION_EXCLUSIVE" && !lock.who.sleeps;
    (writes && has_run_for(&lock.who, longer_than)).then(|| "a statement that writes".to_owned())
}

/// The server counts whole seconds.
fn has_run_for(who: &Who, longer_than: Duration) -> bool {
    Duration::from_secs(who.seconds) >= longer_than
}

/// The word that says what a statement does, in capitals: the first one, or behind `WITH` that of the main statement.
fn verb(statement: &str) -> Option<String> {
    let opened = statement.trim_start_matches(|character: char| character == '(' || character.is_whitespace());
    let mut words = Words { rest: opened, depth: 0 };
    let first = words.next()?;
    if first != "WITH" {
        return Some(first);
    }
    words.find(|word| {
        matches!(
            word.as_str(),
            "SELECT" | "UPDATE" | "DELETE" | "INSERT" | "REPLACE" | "TABLE" | "VALUES"
        )
    })
}

/// The words of a statement that stand outside comments, quotes and parentheses.
struct Words<'a> {
    rest: &'a str,
    depth: usize,
}

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let mut characters = self.rest.chars();
            let character = characters.next()?;
            let tail = characters.as_str();
            self.rest = match character {
                '/' if tail.starts_with("*!") => {
                    tail.trim_start_matches(|c: char| "*!".contains(c) || c.is_ascii_digit())
                }
                '/' if tail.starts_with('*') => after(tail, "*/"),
                '#' => after(tail, "\n"),
                '-' if tail.starts_with('-') => after(tail, "\n"),
                '\'' | '"' | '`' => after_quote(tail, character),
                '(' => {
                    self.depth += 1;
                    tail
                }
                ')' => {
                    self.depth = self.depth.saturating_sub(1);
                    tail
                }
                letter if is_word(letter) => {
                    let word = self.rest.split(|c| !is_word(c)).next().unwrap_or_default();
                    self.rest = self.rest.strip_prefix(word).unwrap_or_default();
                    if self.depth == 0 {
                        return Some(word.to_ascii_uppercase());
                    }
                    continue;
                }
                _ => tail,
            };
        }
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// Behind the closing quote; one that is doubled or has a backslash before it closes nothing.
fn after_quote(text: &str, quote: char) -> &str {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && quote != '`' {
            characters.next();
        } else if character == quote {
            break;
        }
    }
    characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(seconds: u64) -> Who {
        Who {
            id: 7,
            user: "app".to_owned(),
            seconds,
            sleeps: false,
        }
    }

    fn lock(object_type: &str, lock_type: &str, sleeps: bool) -> HeldLock {
        HeldLock {
            who: Who { sleeps, ..running(0) },
            object_type: object_type.to_owned(),
            lock_type: lock_type.to_owned(),
            object: "app.t".to_owned(),
        }
    }

    /// The word that counts is found behind comments, parentheses and common table expressions.
    #[test]
    fn the_verb_of_a_statement() {
        for (statement, expected) in [
            ("UPDATE t SET n = 1", Some("UPDATE")),
            (
                "  /* app: it's (me */ -- don't\n# \"\ninsert INTO t VALUES (1)",
                Some("INSERT"),
            ),
            ("/*!80000 REPLACE */ INTO t VALUES (1)", Some("REPLACE")),
            ("( (SELECT 1) UNION (SELECT 2))", Some("SELECT")),
            (
                "WITH a AS (SELECT ')' AS x, 'it''s' FROM `update (`), b AS (DELETE) UPDATE t SET n = 1",
                Some("UPDATE"),
            ),
            ("WITH a AS (SELECT \"\\\") UPDATE\") SELECT * FROM a", Some("SELECT")),
            ("WITH a AS (SELECT 1", None),
            ("", None),
            ("/* nothing", None),
        ] {
            assert_eq!(verb(statement).as_deref(), expected, "{statement}");
        }
    }

    /// A statement blocks when it writes and has run long enough; `spec: X-PRE-01`, `report: B16`.
    #[test]
    fn long_statements_that_write_block() {
        let threshold = Duration::from_secs(3);
        let what = statement_blocks(
            &running(3),
            Some("updating"),
            Some("UPDATE t SET secret = 'x'"),
            threshold,
        )
        .unwrap();
        assert_eq!(what, "UPDATE (state: \"updating\")");
        assert_eq!(
            statement_blocks(&running(2), Some("updating"), Some("UPDATE t SET n = 1"), threshold),
            None
        );
        assert_eq!(
            statement_blocks(&running(99), Some("executing"), Some("SELECT 1"), threshold),
            None
        );
        assert_eq!(statement_blocks(&running(99), Some("executing"), None, threshold), None);
        let sleeping = Who {
            sleeps: true,
            ..running(99)
        };
        assert_eq!(
            statement_blocks(&sleeping, None, Some("UPDATE t SET n = 1"), threshold),
            None
        );
    }

    /// A commit that waits for an acknowledgement is named as such; `report: B19`.
    #[test]
    fn waiting_for_an_acknowledgement_blocks() {
        let state = Some("Waiting for semi-sync ACK from replica");
        let what = statement_blocks(&running(1), state, Some("COMMIT"), Duration::from_secs(1)).unwrap();
        assert!(what.contains("semi-sync"), "{what}");
    }

    /// Locks of sessions that do nothing are named whatever the threshold, but not what a running statement holds;
    /// `spec: X-PRE-01`, `report: B24`.
    #[test]
    fn locks_block() {
        let threshold = Duration::from_secs(1);
        let told = |object_type, lock_type, sleeps| lock_blocks(&lock(object_type, lock_type, sleeps), threshold);
        assert_eq!(
            told("GLOBAL", "SHARED", true).as_deref(),
            Some("FLUSH TABLES WITH READ LOCK")
        );
        assert_eq!(
            told("BACKUP LOCK", "SHARED", true).as_deref(),
            Some("LOCK INSTANCE FOR BACKUP")
        );
        assert_eq!(
            told("TABLE", "SHARED_NO_READ_WRITE", true).as_deref(),
            Some("LOCK TABLES app.t WRITE")
        );
        assert_eq!(
            told("TABLE", "SHARED_READ_ONLY", true).as_deref(),
            Some("LOCK TABLES app.t READ")
        );
        assert!(told("TABLE", "SHARED_NO_WRITE", true).is_some());
        assert_eq!(told("TABLE", "SHARED_NO_WRITE", false), None);
        assert_eq!(told("BACKUP LOCK", "INTENTION_EXCLUSIVE", false), None);
        assert_eq!(
            writer_blocks(&lock("GLOBAL", "INTENTION_EXCLUSIVE", false), threshold),
            None
        );
        assert!(writer_blocks(&lock("GLOBAL", "INTENTION_EXCLUSIVE", false), Duration::ZERO).is_some());
    }
}
