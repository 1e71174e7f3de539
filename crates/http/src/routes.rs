//! Paths and their answers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use fairlink_net::{ClassFilter, Links, ReloadRequest, StatsContent};
use fairlink_report::Document;
use serde::Serialize;

use crate::connections::{Connection, Connections};
use crate::files::PageFiles;
use crate::guard::{self, Refusal};
use crate::live::{self, Live};
use crate::moments::Moments;
use crate::open_api;
use crate::token::Token;

/// Longest link file in bytes, as at the control socket.
const LONGEST_FILE: usize = 16 << 20;

/// What the page may load and run: its own files only, and no site may show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' blob:; worker-src blob:; style-src 'self'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) links: Links,
    pub(crate) moments: Moments,
    pub(crate) connections: Connections,
    /// As [`HttpConfig::taking`](crate::HttpConfig::taking).
    pub(crate) taking: std::time::Duration,
}

/// What requests to the page share.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) served: Arc<Served>,
    pub(crate) live: Arc<Live>,
    pub(crate) files: Option<PageFiles>,
    pub(crate) token: Arc<Token>,
    /// Names of this machine.
    pub(crate) hosts: Vec<String>,
}

/// The paths of `--metrics`.
pub(crate) fn metrics(served: Arc<Served>) -> Router {
    let elsewhere = || async {
        (StatusCode::NOT_FOUND, "The paths are /metrics, /metrics?class=GLOB&depth=N, /healthz and /readyz.\n")
    };
    measured().fallback(elsewhere).with_state(served)
}

/// The paths of `--page`.
pub(crate) fn page(page: Page) -> Router {
    let elsewhere = || async {
        (
            StatusCode::NOT_FOUND,
            "The paths are /, /metrics, /healthz, /readyz and those that /api/v1/openapi.json describes.\n",
        )
    };
    let served = Arc::clone(&page.served);
    let page = Arc::new(page);
    Router::new()
        .route("/", get(index))
        .route("/{file}", get(file))
        .route("/api/v1/openapi.json", get(|| async { Json(open_api::document()) }))
        .route("/api/v1/links", get(links))
        .route("/api/v1/links/{link}/stats", get(stats))
        .route("/api/v1/links/{link}/file", get(link_file))
        .route("/api/v1/links/{link}/history", get(history))
        .route("/api/v1/links/{link}/events", get(events))
        .route("/api/v1/links/{link}/reload", post(reload))
        .fallback(elsewhere)
        .with_state(Arc::clone(&page))
        .merge(measured().with_state(served))
        .layer(middleware::from_fn_with_state(page, guarded))
}

fn measured() -> Router<Arc<Served>> {
    Router::new().route("/metrics", get(open_metrics)).route("/healthz", get(healthy)).route("/readyz", get(ready))
}

/// Every answer of the page: for this machine's names only, kept nowhere, shown in no frame.
async fn guarded(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let mut response = match guard::host(request.headers(), &page.hosts) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(refusal),
    };
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 4] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

fn refused((status, why): Refusal) -> Response {
    (status, why + "\n").into_response()
}

fn query(RawQuery(query): RawQuery) -> Result<ClassFilter, Refusal> {
    ClassFilter::read(query.as_deref().unwrap_or_default()).map_err(|why| (StatusCode::BAD_REQUEST, why))
}

async fn open_metrics(State(served): State<Arc<Served>>, raw: RawQuery) -> Response {
    match query(raw) {
        Ok(filter) => {
            let text = served.moments.fresh().await.open_metrics(filter);
            ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
                .into_response()
        }
        Err(refusal) => refused(refusal),
    }
}

async fn healthy(State(served): State<Arc<Served>>) -> Response {
    health(&served.links.ailing())
}

async fn ready(State(served): State<Arc<Served>>) -> Response {
    health(&served.links.unready())
}

fn health(why: &[String]) -> Response {
    match why {
        [] => "ok\n".into_response(),
        why => (StatusCode::SERVICE_UNAVAILABLE, why.join("\n") + "\n").into_response(),
    }
}

async fn index(State(page): State<Arc<Page>>) -> Response {
    match &page.files {
        Some(files) => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], files.index.clone()).into_response(),
        None => (
            StatusCode::NOT_FOUND,
            "The files of the page are not here; the log of the gateway says where it looked. The interface below \
             /api/v1 works: /api/v1/openapi.json describes it.\n",
        )
            .into_response(),
    }
}

/// A file of the page, by its name alone: nothing on a disk is read.
async fn file(State(page): State<Arc<Page>>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let files = page.files.iter().flat_map(|files| &files.packed);
    let Some(file) = files.into_iter().find(|file| file.name == name) else {
        return (StatusCode::NOT_FOUND, "The page has no such file.\n").into_response();
    };
    let unpacks = headers.get_all(header::ACCEPT_ENCODING).iter().any(|value| {
        let codings = value.to_str().unwrap_or_default().split(',');
        codings.map(|coding| coding.split(';').next().unwrap_or_default().trim()).any(|coding| coding == "gzip")
    });
    if !unpacks {
        let why = "This file is sent compressed: the request must have `Accept-Encoding: gzip`.\n";
        return (StatusCode::NOT_ACCEPTABLE, why).into_response();
    }
    let kind = [(header::CONTENT_TYPE, file.kind), (header::CONTENT_ENCODING, "gzip")];
    (kind, file.packed.clone()).into_response()
}

/// Names of the links.
#[derive(Serialize)]
struct LinkNames {
    links: Vec<String>,
}

async fn links(State(page): State<Arc<Page>>) -> Response {
    let links = page.served.links.list().into_iter().map(|(name, _)| name).collect();
    Json(LinkNames { links }).into_response()
}

fn no_link(page: &Page, name: &str) -> Refusal {
    let why = page.served.links.find(Some(name)).err();
    (StatusCode::NOT_FOUND, why.unwrap_or_else(|| format!("the link {name:?} has not been measured yet; ask again")))
}

async fn stats(State(page): State<Arc<Page>>, Path(name): Path<String>, raw: RawQuery) -> Response {
    let filter = match query(raw) {
        Ok(filter) => filter,
        Err(refusal) => return refused(refusal),
    };
    let moment = match page.live.last() {
        Some(moment) => moment,
        None => page.served.moments.fresh().await.moment.clone(),
    };
    let Some(link) = moment.link(&name) else { return refused(no_link(&page, &name)) };
    match link.stats(&filter) {
        Some(stats) => Json(Document::new(StatsContent { links: vec![stats] })).into_response(),
        None => refused((StatusCode::SERVICE_UNAVAILABLE, format!("the data thread of {name:?} does not answer"))),
    }
}

async fn link_file(State(page): State<Arc<Page>>, Path(name): Path<String>) -> Response {
    let remote = match page.served.links.find(Some(&name)) {
        Ok(remote) => remote,
        Err(why) => return refused((StatusCode::NOT_FOUND, why)),
    };
    match remote.link_text() {
        Ok(text) => ([(header::CONTENT_TYPE, "application/toml")], text).into_response(),
        Err(why) => refused((StatusCode::CONFLICT, why.to_string())),
    }
}

async fn history(State(page): State<Arc<Page>>, Path(name): Path<String>, RawQuery(raw): RawQuery) -> Response {
    let filter = match ClassFilter::read_names(raw.as_deref().unwrap_or_default()) {
        Ok(filter) => filter,
        Err(why) => return refused((StatusCode::BAD_REQUEST, why)),
    };
    match page.live.history(&name, |class| filter.takes_name(class)) {
        Some(content) => Json(Document::new(content)).into_response(),
        None => refused(no_link(&page, &name)),
    }
}

async fn events(
    State(page): State<Arc<Page>>,
    Extension(connection): Extension<Connection>,
    Path(name): Path<String>,
) -> Response {
    let Some(place) = page.served.connections.stream() else {
        let why = format!("{} clients follow the links already; close one", crate::MAX_STREAMS);
        return refused((StatusCode::SERVICE_UNAVAILABLE, why));
    };
    if let Err(why) = page.served.links.find(Some(&name)) {
        return refused((StatusCode::NOT_FOUND, why));
    }
    let receiver = page.live.look(&name);
    connection.hold();
    let events = live::events(receiver);
    // The place is free when the stream is dropped.
    let events = futures_util::StreamExt::map(events, move |text| {
        let _place = &place;
        text
    });
    ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(events)).into_response()
}

fn parameters(raw: Option<&str>) -> impl Iterator<Item = (String, String)> {
    let pairs = form_urlencoded::parse(raw.unwrap_or_default().as_bytes());
    pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect::<Vec<_>>().into_iter()
}

/// Reads the parameters of a change: `dry_run=true` or `false`, and `move=OLD=NEW`.
fn change_of(raw: Option<&str>) -> Result<(bool, Vec<(String, String)>), String> {
    let (mut dry_run, mut moves) = (false, Vec::new());
    for (key, value) in parameters(raw) {
        match (&*key, &*value, value.split_once('=')) {
            ("dry_run", "true" | "false", _) => dry_run = value == "true",
            ("dry_run", ..) => return Err(format!("dry_run={value}: write true or false")),
            ("move", _, Some((old, new))) => moves.push((old.to_owned(), new.to_owned())),
            ("move", ..) => return Err(format!("move={value}: write OLD=NEW, two names of classes")),
            (other, ..) => return Err(format!("unknown parameter {other:?}; there are dry_run and move")),
        }
    }
    Ok((dry_run, moves))
}

async fn reload(
    State(page): State<Arc<Page>>,
    Extension(connection): Extension<Connection>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    // Nothing of the file is read before.
    let token = |given: &[u8]| page.token.is(given);
    if let Err(refusal) = guard::change(&headers, token, &page.token.path().display().to_string()) {
        return refused(refusal);
    }
    let (dry_run, moves) = match change_of(raw.as_deref()) {
        Ok(change) => change,
        Err(why) => return refused((StatusCode::BAD_REQUEST, why)),
    };
    let Ok(bytes) = axum::body::to_bytes(body, LONGEST_FILE).await else {
        let why = format!("a link file has at most {LONGEST_FILE} B here; use `fairlink ctl reload` for a longer one");
        return refused((StatusCode::PAYLOAD_TOO_LARGE, why));
    };
    let Ok(text) = String::from_utf8(bytes.into()) else {
        return refused((StatusCode::BAD_REQUEST, "the link file is not UTF-8".to_owned()));
    };
    if let Err(why) = page.served.links.find(Some(&name)) {
        return refused((StatusCode::NOT_FOUND, why));
    }
    // The change goes on even if the client has gone away.
    connection.hold();
    let links = page.served.links.clone();
    let asked = ReloadRequest { link: Some(name), text: Some(("(page)".to_owned(), text)), moves, dry_run };
    let done = tokio::task::spawn_blocking(move || links.reload(&asked)).await;
    match done {
        Ok(Ok(reloaded)) => Json(Document::new(reloaded)).into_response(),
        Ok(Err(why)) => refused((StatusCode::UNPROCESSABLE_ENTITY, why)),
        Err(_) => refused((StatusCode::INTERNAL_SERVER_ERROR, "the change has failed; nothing has changed".to_owned())),
    }
}
