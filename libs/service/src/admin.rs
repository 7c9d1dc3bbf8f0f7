//! The HTTP endpoints of every binary, plain and without side effects:
//!
//! | path | answers |
//! |---|---|
//! | `/livez` | 200 while every registered loop shows itself in time, else 503 and the silent ones |
//! | `/readyz` | 200 when every check holds, else 503 and the failing ones |
//! | `/metrics` | Prometheus text |
//! | `/configz` | the effective configuration with origins, secrets redacted |
//! | any other | what the binary has mounted |

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::health::{Failing, Health};
use crate::metrics::MetricsHandle;

/// The admin server of a binary. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    address: SocketAddr,
    mounted: Arc<RwLock<Router>>,
}

#[derive(Clone)]
struct Endpoints {
    health: Health,
    metrics: MetricsHandle,
    configuration: Arc<str>,
    mounted: Arc<RwLock<Router>>,
}

impl Admin {
    /// Binds the address and serves until `stop`.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound.
    pub(crate) async fn serve(
        address: SocketAddr,
        health: Health,
        metrics: MetricsHandle,
        configuration: String,
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let mounted = Arc::new(RwLock::new(Router::new()));
        let endpoints = Endpoints {
            health,
            metrics,
            configuration: configuration.into(),
            mounted: Arc::clone(&mounted),
        };
        let router = Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .route("/metrics", get(render_metrics))
            .route("/configz", get(configz))
            .fallback(fallback)
            .with_state(endpoints);
        // Outside of the tracked tasks: probes and metrics are answered to the end of the drain, and it never keeps one waiting.
        tokio::spawn(async move {
            tokio::select! {
                result = axum::serve(listener, router).into_future() => {
                    if let Err(error) = result {
                        tracing::error!(%error, "admin endpoints ended");
                    }
                }
                () = stop.cancelled() => {}
            }
        });
        Ok(Self { address, mounted })
    }

    /// The address that is listened on; the port is the real one also when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds routes of the binary's own beside those of every binary.
    pub fn mount(&self, routes: Router) {
        let mut mounted = self.mounted.write().unwrap_or_else(PoisonError::into_inner);
        *mounted = std::mem::take(&mut *mounted).merge(routes);
    }
}

async fn livez(State(endpoints): State<Endpoints>) -> Response {
    report("alive", endpoints.health.not_alive())
}

async fn readyz(State(endpoints): State<Endpoints>) -> Response {
    report("ready", endpoints.health.not_ready())
}

fn report(what: &str, failing: Vec<Failing>) -> Response {
    let status = if failing.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(json!({ what: failing.is_empty(), "failing": failing }))).into_response()
}

async fn render_metrics(State(endpoints): State<Endpoints>) -> Response {
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        endpoints.metrics.render(),
    )
        .into_response()
}

async fn configz(State(endpoints): State<Endpoints>) -> Response {
    (
        [(CONTENT_TYPE, "application/toml; charset=utf-8")],
        endpoints.configuration.to_string(),
    )
        .into_response()
}

async fn fallback(State(endpoints): State<Endpoints>, request: Request) -> Response {
    let mounted = endpoints.mounted.read().unwrap_or_else(PoisonError::into_inner).clone();
    mounted.oneshot(request).await.into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::metrics;
    use crate::testing::expect_no_errors;

    async fn served(health: &Health) -> (Admin, CancellationToken) {
        let (_, handle) = metrics::recorder(&[]).unwrap();
        let stop = CancellationToken::new();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let text = "shutdown-grace = \"25s\" # default\n".to_owned();
        (
            Admin::serve(address, health.clone(), handle, text, stop.clone())
                .await
                .unwrap(),
            stop,
        )
    }

    /// The status line's code and the body.
    async fn fetch(admin: &Admin, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(admin.address()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut response))
            .await
            .unwrap()
            .unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// `/readyz` lists the checks that fail with 503 and turns to 200 when none does.
    #[tokio::test]
    async fn readiness_over_http() {
        let _errors = expect_no_errors();
        let health = Health::default();
        let (admin, _stop) = served(&health).await;
        let [bus, api] = [health.check("bus"), health.check("api")];
        api.unready("401 Unauthorized");
        let (status, body) = fetch(&admin, "/readyz").await;
        assert_eq!(status, 503);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        let expected = json!([{"name": "api", "reason": "401 Unauthorized"}, {"name": "bus", "reason": "starting"}]);
        assert_eq!(body, json!({"ready": false, "failing": expected}));
        bus.ready();
        api.ready();
        assert_eq!(
            fetch(&admin, "/readyz").await,
            (200, r#"{"failing":[],"ready":true}"#.to_owned())
        );
    }

    /// `/livez` turns to 503 when a loop has been silent for longer than its bound, and names it.
    #[tokio::test]
    async fn liveness_over_http() {
        let _errors = expect_no_errors();
        let health = Health::default();
        let (admin, _stop) = served(&health).await;
        assert_eq!(fetch(&admin, "/livez").await.0, 200);
        let poll = health.heartbeat("poll", Duration::ZERO);
        let (status, body) = fetch(&admin, "/livez").await;
        assert_eq!(status, 503);
        assert!(body.contains(r#""name":"poll""#), "{body}");
        drop(poll);
        assert_eq!(fetch(&admin, "/livez").await.0, 200);
    }

    /// The other endpoints answer what they were given; a binary's own routes can come later; the rest is 404.
    #[tokio::test]
    async fn configuration_and_mounted_routes() {
        let _errors = expect_no_errors();
        let (admin, _stop) = served(&Health::default()).await;
        assert_eq!(
            fetch(&admin, "/configz").await,
            (200, "shutdown-grace = \"25s\" # default\n".to_owned())
        );
        assert_eq!(fetch(&admin, "/metrics").await.0, 200);
        assert_eq!(fetch(&admin, "/status").await.0, 404);
        admin.mount(Router::new().route("/status", get(async || "all groups")));
        assert_eq!(fetch(&admin, "/status").await, (200, "all groups".to_owned()));
    }

    /// Nothing is served after the stop.
    #[tokio::test]
    async fn the_stop_closes_the_port() {
        let (admin, stop) = served(&Health::default()).await;
        stop.cancel();
        let refused = async {
            while TcpStream::connect(admin.address()).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), refused).await.unwrap();
    }
}
