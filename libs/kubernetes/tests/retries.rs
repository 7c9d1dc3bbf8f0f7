//! The client sends each request once, whatever the server does with it.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bloodraven_crd::read;
use bloodraven_kubernetes::{ConnectOptions, KubernetesStore, StoreOptions, connect};
use bloodraven_ports::{AnnotationChanges, Clock, GroupStore, SitesUpdate, StoreError};
use bloodraven_types::{Group, Timestamp};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// What the server does with one request after it has read all of it.
#[derive(Clone, Copy)]
enum Behaviour {
    /// Answers with this status.
    Answer(&'static str),
    /// Closes the connection.
    Close,
    /// Says nothing.
    Silence,
}

/// A server that behaves as told, request by request, and keeps the first line of each.
struct Server {
    store: KubernetesStore,
    requests: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }
}

impl Server {
    async fn start(behaviour: &'static [Behaviour]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, behaviour, seen.clone()));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c" } }],
            "users": [{ "name": "c", "user": {} }],
        });
        std::fs::write(&kubeconfig, text.to_string()).unwrap();
        let options = ConnectOptions {
            kubeconfig: Some(kubeconfig),
            context: None,
        };
        let client = connect(&options).await.unwrap();
        let options = StoreOptions {
            read_timeout: Duration::from_secs(1),
            write_timeout: Duration::from_secs(1),
            instance: "test".to_owned(),
        };
        Self {
            store: KubernetesStore::new(client, StoppedClock, options),
            requests,
        }
    }
}

async fn serve(connection: TcpStream, behaviour: &[Behaviour], seen: Arc<Mutex<Vec<String>>>) {
    let mut connection = BufReader::new(connection);
    while let Some(line) = read_request(&mut connection).await {
        let number = {
            let mut seen = seen.lock().await;
            seen.push(line);
            seen.len() - 1
        };
        match behaviour.get(number).or(behaviour.last()) {
            Some(Behaviour::Answer(status)) => {
                let code: u16 = status.split(' ').next().unwrap().parse().unwrap();
                let body = json!({ "kind": "Status", "status": "Failure", "message": "no", "code": code }).to_string();
                let length = body.len();
                let answer = format!("HTTP/1.1 {status}\r\nretry-after: 0\r\ncontent-length: {length}\r\n\r\n{body}");
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
            Some(Behaviour::Close) | None => return,
            Some(Behaviour::Silence) => std::future::pending().await,
        }
    }
}

/// The first line of the next request, once its body has come too.
async fn read_request(connection: &mut BufReader<TcpStream>) -> Option<String> {
    let mut first = String::new();
    if connection.read_line(&mut first).await.unwrap_or(0) == 0 {
        return None;
    }
    let mut length = 0;
    loop {
        let mut header = String::new();
        connection.read_line(&mut header).await.unwrap();
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.unwrap();
    Some(first.trim().to_owned())
}

fn group() -> Group {
    read(json!({
        "apiVersion": "shipstream.io/v1alpha1",
        "kind": "MysqlFailoverGroup",
        "metadata": { "namespace": "default", "name": "orders", "uid": "u-1", "resourceVersion": "7" },
        "spec": { "sites": [] },
    }))
    .unwrap()
}

async fn writes(store: &KubernetesStore) -> [StoreError; 3] {
    let group = group();
    let annotations = AnnotationChanges::from([("a/b".to_owned(), None)]);
    let sites = SitesUpdate {
        active_site: None,
        sites: Vec::new(),
    };
    [
        store.write_status(&group, &group.status).await.unwrap_err(),
        store.write_annotations(&group, &annotations).await.unwrap_err(),
        store.write_sites(&group.key, &group.uid, &sites).await.unwrap_err(),
    ]
}

/// A write that the server answers with an error it may recover from is not sent again, and neither is a read; each
/// write tells the server its own deadline. spec: PF-DUR-02
#[tokio::test]
async fn answered_errors_are_not_retried() {
    for (status, ambiguous) in [
        ("503 Service Unavailable", true),
        ("504 Gateway Timeout", true),
        ("500 Internal Server Error", true),
        ("429 Too Many Requests", false),
    ] {
        let behaviour: &'static [Behaviour] = Box::leak(Box::new([Behaviour::Answer(status)]));
        let server = Server::start(behaviour).await;
        for error in writes(&server.store).await {
            assert_eq!(
                matches!(error, StoreError::Ambiguous { .. }),
                ambiguous,
                "{status}: {error:?}"
            );
        }
        server.store.get(&group().key).await.unwrap_err();
        let requests = server.requests.lock().await;
        assert_eq!(requests.len(), 4, "{status}: {requests:?}");
        let path = "/apis/shipstream.io/v1alpha1/namespaces/default/mysqlfailovergroups/orders";
        let expected = [
            format!("PUT {path}/status?"),
            format!("PATCH {path}?"),
            format!("PATCH {path}/status?"),
            format!("GET {path}"),
        ];
        for (request, start) in requests.iter().zip(&expected) {
            assert!(request.starts_with(start), "{request}");
            assert_eq!(
                request.contains("timeout=1000ms"),
                !request.starts_with("GET"),
                "{request}"
            );
            assert!(!request.contains("resourceVersion"), "{request}");
        }
    }
}

/// A write that has reached the server is not sent again when its connection closes or stays silent, on a new connection
/// or on a warm one. spec: PF-DUR-02; report: B60
#[tokio::test]
async fn lost_replies_are_not_retried() {
    let lost: [&'static [Behaviour]; 4] = [
        &[Behaviour::Close],
        &[Behaviour::Silence],
        &[Behaviour::Answer("403 Forbidden"), Behaviour::Close],
        &[Behaviour::Answer("403 Forbidden"), Behaviour::Silence],
    ];
    for (case, behaviour) in lost.into_iter().enumerate() {
        let server = Server::start(behaviour).await;
        let errors = writes(&server.store).await;
        let ambiguous = errors
            .iter()
            .filter(|error| matches!(error, StoreError::Ambiguous { .. }))
            .count();
        assert_eq!(ambiguous, 4 - behaviour.len(), "case {case}: {errors:?}");
        assert_eq!(server.requests.lock().await.len(), 3, "case {case}");
    }
}
