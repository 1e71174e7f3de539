//! The thread of the servers: listeners, connections, and their limits of time.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use fairlink_net::{AcceptFailures, Links, nice, set_nice};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::connections::{Connection, Connections};
use crate::files::PageFiles;
use crate::live;
use crate::moments::Moments;
use crate::routes::{self, Served};
use crate::token::Token;

/// Time for a connection to send the head of a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Default of `HttpConfig::taking`.
const TAKING: Duration = Duration::from_secs(30);
/// Longest head of a request in bytes.
const LONGEST_HEAD: usize = 8 * 1024;

/// What is served, and where.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// The page.
    pub page: Option<PageConfig>,
    /// Time for a request with its answer, and for a client to take anything of what waits for it.
    pub taking: Duration,
}

impl Default for HttpConfig {
    /// Serves nothing.
    fn default() -> Self {
        Self { metrics: None, page: None, taking: TAKING }
    }
}

/// The page.
#[derive(Clone, Debug)]
pub struct PageConfig {
    /// Its address.
    pub address: SocketAddr,
    /// Its files; without them only the interface for programs is served.
    pub files: Option<PageFiles>,
    /// The token for changes.
    pub token: Arc<Token>,
    /// Names of this machine by which browsers may ask, besides `localhost` and addresses.
    pub hosts: Vec<String>,
}

/// Reason why nothing is served.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The address cannot be listened at.
    #[error("{what} at {address}: {source}{}", match source.kind() {
        io::ErrorKind::AddrInUse => "; the port is in use, choose another",
        io::ErrorKind::AddrNotAvailable => "; use an address of this machine, or 0.0.0.0 or [::] for all of them",
        _ if source.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
            "; in a systemd unit, RestrictAddressFamilies= must include AF_INET and AF_INET6"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE, choose a higher one",
        _ => "",
    })]
    Address {
        /// `metrics` or `page`.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No thread could be started.
    #[error("the servers of metrics and page: cannot start a thread: {0}")]
    Thread(io::Error),
}

/// The running servers, until this is dropped.
#[derive(Debug)]
pub struct Http {
    metrics: Option<SocketAddr>,
    page: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A server whose listener is open.
#[derive(Debug)]
struct Opened {
    listener: TcpListener,
    address: SocketAddr,
}

impl Opened {
    fn at(address: SocketAddr, what: &'static str) -> Result<Self, HttpError> {
        let system = |source| HttpError::Address { what, address, source };
        let listener = TcpListener::bind(address).map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        Ok(Self { listener, address })
    }
}

impl Http {
    /// Serves `links` from a new thread. With port 0 the kernel chooses one. If metrics and page have the same address,
    /// the page's server has both.
    ///
    /// # Errors
    /// [`HttpError`].
    pub fn start(config: &HttpConfig, links: Links) -> Result<Self, HttpError> {
        let HttpConfig { metrics, page, taking } = config;
        let apart = metrics.filter(|address| page.as_ref().is_none_or(|page| page.address != *address));
        let opened = apart.map(|address| Opened::at(address, "metrics")).transpose()?;
        let opened_page = page.as_ref().map(|page| Opened::at(page.address, "page")).transpose()?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(4).build().map_err(HttpError::Thread)?;
        let page_address = opened_page.as_ref().map(|page| page.address);
        let metrics_address = opened.as_ref().map(|metrics| metrics.address).or(metrics.and(page_address));
        let (stop, stopped) = oneshot::channel();
        let (page, taking) = (opened_page.zip(page.clone()), *taking);
        let thread = std::thread::Builder::new().name("fairlink-http".to_owned()).spawn(move || {
            // The data thread precedes other programs; its clients do not.
            if nice().is_ok_and(|value| value < 0) {
                let _ = set_nice(0);
            }
            runtime.block_on(async {
                let serving = serve(links, opened, page, taking);
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
            // A change that is being made is not waited for.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(HttpError::Thread)?;
        Ok(Self { metrics: metrics_address, page: page_address, stop: Some(stop), thread: Some(thread) })
    }

    /// Address of the metrics, with the port that was chosen.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Address of the page, with the port that was chosen.
    #[must_use]
    pub fn page(&self) -> Option<SocketAddr> {
        self.page
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

async fn serve(links: Links, metrics: Option<Opened>, page: Option<(Opened, PageConfig)>, taking: Duration) {
    let served = Arc::new(Served {
        links: links.clone(),
        moments: Moments::new(links.clone()),
        connections: Connections::default(),
        taking,
    });
    // The first request then has an earlier observation to compare with.
    let first = Arc::clone(&served);
    tokio::spawn(async move { first.moments.fresh().await });
    let mut listeners = Vec::new();
    if let Some(opened) = metrics {
        let routes = routes::metrics(Arc::clone(&served));
        listeners.push(tokio::spawn(listen(opened, routes, Arc::clone(&served), "the address of metrics")));
    }
    if let Some((opened, PageConfig { files, token, hosts, .. })) = page {
        let live = live::start(links);
        let routes = routes::page(routes::Page { served: Arc::clone(&served), live, files, token, hosts });
        listeners.push(tokio::spawn(listen(opened, routes, served, "the address of the page")));
    }
    for listener in listeners {
        // A listener ends only with its thread.
        let _ = listener.await;
    }
}

/// Accepts connections for ever.
async fn listen(opened: Opened, routes: Router, served: Arc<Served>, subject: &'static str) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut failures = AcceptFailures::new(subject);
    // The listener is non-blocking, and a runtime is there.
    let Ok(listener) = tokio::net::TcpListener::from_std(opened.listener) else { return };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                if let Some(pause) = failures.record(&error, &served.links) {
                    tokio::time::sleep(pause).await;
                }
                continue;
            }
        };
        // Settings that only make it better.
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(served.taking));
        let (number, connection) = (NUMBER.fetch_add(1, Ordering::Relaxed), Connection::default());
        let (routes, own, of_task) = (routes.clone(), connection.clone(), Arc::clone(&served));
        let task = tokio::spawn(async move {
            connected(stream, routes, own, of_task.taking).await;
            of_task.connections.remove(number);
        });
        if !served.connections.add(number, connection, task.abort_handle()) {
            task.abort();
        }
    }
}

/// Serves one connection, with one request.
async fn connected(stream: tokio::net::TcpStream, routes: Router, connection: Connection, taking: Duration) {
    let of_requests = connection.clone();
    let service = TowerToHyperService::new(tower::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(of_requests.clone());
        let mut routes = routes.clone();
        tower::Service::call(&mut routes, request)
    }));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(LONGEST_HEAD);
    let mut served = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    loop {
        tokio::select! {
            // An error ends its own connection alone.
            _ = &mut served => return,
            () = tokio::time::sleep(taking) => if !connection.is_held() { return },
        }
    }
}
