//! The little of HTTP that looking at a monitoring endpoint takes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one request may take.
const BUDGET: Duration = Duration::from_secs(2);

/// Status code and body of a GET; `None` when there is no answer in time.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    tokio::time::timeout(BUDGET, exchange(address, path))
        .await
        .ok()?
        .ok()
        .as_deref()
        .and_then(parse)
}

async fn exchange(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    // HTTP/1.0: the answer ends with the connection and comes in one piece.
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
        .await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    /// Status and body are cut from an answer; a torn answer is none.
    #[test]
    fn answers_are_parsed() {
        assert_eq!(
            super::parse("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"),
            Some((200, "{}".to_owned()))
        );
        assert_eq!(super::parse("HTTP/1.0 200 OK"), None);
    }
}
