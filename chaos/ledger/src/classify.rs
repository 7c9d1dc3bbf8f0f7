//! What an error says about the write it answered: refused, or unknown.

use mysql_async::{Error, IoError, ServerError};

use crate::UnconfirmedKind;

/// Server errors after which the row may have been committed all the same.
///
/// 1053 shutdown in progress, 1105 unknown error, 1180 error during COMMIT, 1317 interrupted, 1598 binary log failed,
/// 3032 offline mode (it ends sessions in mid-statement), 3100 a hook around the commit failed, 3169 session killed.
const OPEN_ENDED: [u16; 8] = [1053, 1105, 1180, 1317, 1598, 3032, 3100, 3169];

/// The code of a write that took longer than the statement timeout.
pub(crate) const STATEMENT_TIMEOUT: &str = "statement-timeout";
/// The code of a connection that took longer than the connect timeout.
pub(crate) const CONNECT_TIMEOUT: &str = "connect-timeout";
/// The code of an answer to an INSERT that carries no id.
pub(crate) const NO_ID: &str = "no-id";

/// What an error says about the write that was under way.
///
/// Unknown is the safe side: an unknown write is never counted as a promise, so nothing is lost by calling one unknown
/// that was in truth never sent.
pub(crate) fn outcome(error: &Error) -> UnconfirmedKind {
    match error {
        Error::Server(ServerError { code, .. }) if !OPEN_ENDED.contains(code) => UnconfirmedKind::Refused,
        Error::Server(_) | Error::Io(_) | Error::Driver(_) | Error::Other(_) | Error::Url(_) => {
            UnconfirmedKind::Unknown
        }
    }
}

/// The code under which an error is counted: the server's number, or a word.
pub(crate) fn code(error: &Error) -> String {
    match error {
        Error::Server(ServerError { code, .. }) => code.to_string(),
        Error::Io(IoError::Io(_)) => "connection-lost".to_owned(),
        Error::Io(_) => "tls".to_owned(),
        Error::Driver(mysql_async::DriverError::ConnectionClosed) => "connection-lost".to_owned(),
        Error::Driver(_) => "driver".to_owned(),
        Error::Other(_) => "other".to_owned(),
        Error::Url(_) => "url".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16) -> Error {
        Error::Server(ServerError {
            code,
            message: String::new(),
            state: "HY000".to_owned(),
        })
    }

    /// A read-only refusal is a refusal; a lost connection or an error during COMMIT leaves the outcome unknown
    /// (spec: SB-01).
    #[test]
    fn an_open_outcome_is_never_called_refused() {
        assert_eq!(outcome(&server(1290)), UnconfirmedKind::Refused);
        assert_eq!(code(&server(1290)), "1290");
        for open in OPEN_ENDED {
            assert_eq!(outcome(&server(open)), UnconfirmedKind::Unknown);
        }
        let lost = Error::Io(IoError::Io(std::io::ErrorKind::UnexpectedEof.into()));
        assert_eq!(outcome(&lost), UnconfirmedKind::Unknown);
        assert_eq!(code(&lost), "connection-lost");
        let closed = Error::Driver(mysql_async::DriverError::ConnectionClosed);
        assert_eq!(outcome(&closed), UnconfirmedKind::Unknown);
        assert_eq!(code(&closed), "connection-lost");
    }
}
