//! Reads answers: columns by name, and the forms that the port wants.

use std::str::FromStr;

use bloodraven_ports::{ApplicationSession, Channel, ServerObservation};
use bloodraven_types::ServerUuid;
use mysql_async::Row;
use mysql_async::prelude::FromValue;

/// The rows of each statement of one round trip, in their order.
pub(crate) type Answer = Vec<Vec<Row>>;

/// What is wrong with an answer.
pub(crate) type Malformation = String;

/// The variables that an observation reads, under the names that [`observation`] looks for.
pub(crate) const OBSERVATION: &str = "SELECT @@server_uuid AS server_uuid, @@GLOBAL.read_only AS read_only, \
     @@GLOBAL.super_read_only AS super_read_only, @@GLOBAL.offline_mode AS offline_mode, \
     @@GLOBAL.gtid_executed AS gtid_executed; SHOW REPLICA STATUS";

/// The only row of the statement at `index`.
pub(crate) fn only_row(answer: &Answer, index: usize) -> Result<&Row, Malformation> {
    match answer.get(index).map(Vec::as_slice) {
        Some([row]) => Ok(row),
        Some(rows) => Err(format!(
            "statement {} gave {} rows instead of one",
            index + 1,
            rows.len()
        )),
        None => Err(format!("there is no answer to statement {}", index + 1)),
    }
}

/// A column by its name; names are compared as the server compares them, without regard to case.
pub(crate) fn column<T: FromValue>(row: &Row, name: &str) -> Result<T, Malformation> {
    let index = row
        .columns_ref()
        .iter()
        .position(|column| column.name_str().eq_ignore_ascii_case(name))
        .ok_or_else(|| format!("there is no column {name}"))?;
    match row.get_opt::<T, usize>(index) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(format!("column {name}: {error}")),
        None => Err(format!("column {name} is empty")),
    }
}

/// A column in the form of a type that is written as text.
pub(crate) fn parsed<T: FromStr>(row: &Row, name: &str) -> Result<T, Malformation>
where
    T::Err: std::fmt::Display,
{
    let text: String = column(row, name)?;
    text.parse()
        .map_err(|error| format!("column {name} is {text:?}: {error}"))
}

/// The answer to [`OBSERVATION`].
pub(crate) fn observation(answer: &Answer) -> Result<ServerObservation, Malformation> {
    let row = only_row(answer, 0)?;
    let channels = answer.get(1).ok_or("there is no answer to SHOW REPLICA STATUS")?;
    Ok(ServerObservation {
        server_uuid: parsed(row, "server_uuid")?,
        read_only: column(row, "read_only")?,
        super_read_only: column(row, "super_read_only")?,
        offline_mode: column(row, "offline_mode")?,
        gtid_executed: column(row, "gtid_executed")?,
        channels: channels.iter().map(channel).collect::<Result<_, _>>()?,
    })
}

/// A row of `SHOW REPLICA STATUS`.
fn channel(row: &Row) -> Result<Channel, Malformation> {
    let source_uuid: Option<String> = column(row, "Source_UUID")?;
    let io_running: String = column(row, "Replica_IO_Running")?;
    let sql_running: String = column(row, "Replica_SQL_Running")?;
    Ok(Channel {
        name: column(row, "Channel_Name")?,
        source_host: column(row, "Source_Host")?,
        source_port: column(row, "Source_Port")?,
        source_uuid: source_uuid
            .filter(|text| !text.is_empty())
            .map(|text| {
                text.parse::<ServerUuid>()
                    .map_err(|error| format!("Source_UUID is {text:?}: {error}"))
            })
            .transpose()?,
        // `Connecting` is what a thread says that has never reached its source, or has lost it.
        io_running: io_running == "Yes",
        sql_running: sql_running == "Yes",
        io_error: last_error(row, "Last_IO_Errno", "Last_IO_Error")?,
        sql_error: last_error(row, "Last_SQL_Errno", "Last_SQL_Error")?,
        delay_seconds: column::<Option<u64>>(row, "SQL_Delay")?.unwrap_or(0),
        retrieved_gtid_set: column(row, "Retrieved_Gtid_Set")?,
        seconds_behind_source: column(row, "Seconds_Behind_Source")?,
    })
}

/// An error with its number, such as `1062: Could not execute ...`.
fn last_error(row: &Row, number: &str, message: &str) -> Result<Option<String>, Malformation> {
    let number: u64 = column(row, number)?;
    let message: String = column(row, message)?;
    Ok((number != 0).then(|| format!("{number}: {message}")))
}

/// A row of the processlist, under the names of [`crate::session`]'s query.
pub(crate) fn application_session(row: &Row) -> Result<ApplicationSession, Malformation> {
    Ok(ApplicationSession {
        id: column(row, "id")?,
        user: column(row, "user")?,
        host: column(row, "host")?,
        seconds: seconds(row, "time")?,
    })
}

/// How long a session has been in its state; the server says less than nothing when its clock was set back.
pub(crate) fn seconds(row: &Row, name: &str) -> Result<u64, Malformation> {
    let seconds: Option<i64> = column(row, name)?;
    Ok(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0))
}
