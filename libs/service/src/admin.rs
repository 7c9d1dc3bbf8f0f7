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
