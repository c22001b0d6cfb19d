//! Connections in, answers out, until a signal says that it is enough.
use crate::Attempts;
use crate::Embedded;
use crate::Error;
use crate::Options;
use crate::Questions;
use crate::Result;
use crate::Store;
use crate::Tls;
use crate::Tokens;
use crate::http::App;
use crate::http::router;
use crate::inflight::InFlight;
use crate::journal;
use crate::merging::Merges;
use crate::rate::Rates;
use axum::Router;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::RwLock;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Requests that are under way may take that long after a signal.
const SHUTDOWN: Duration = Duration::from_secs(30);
/// After a connection could not be taken, which is so when there are too many files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server whose store is open and whose address is taken: everything that can be refused was not.
pub struct Server {
    app: Arc<App>,
    listener: std::net::TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    token_file: PathBuf,
    runtime: Runtime,
    signals: Signals,
}

/// Waited for from the moment on at which anybody can know of the server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reread: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reread: signal(SignalKind::hangup())?,
        })
    }
}

/// Opens and runs a server until SIGTERM or SIGINT.
pub fn serve(options: Options, attempts: Arc<dyn Attempts>) -> Result<()> {
    Server::open(options, attempts)?.run()
}

impl Server {
    pub fn open(options: Options, attempts: Arc<dyn Attempts>) -> Result<Server> {
        let address = options.listen;
        if !address.ip().is_loopback() && options.tls.is_none() && !options.allows_plain_remote {
            return Err(Error::PlainRemote { address });
        }
        let tokens = Tokens::load(&options.token_file)?;
        let tls = options.tls.as_ref().map(acceptor).transpose()?;
        let store = Arc::new(Store::open(&options.store)?);
        let listen = |error| Error::Listen { address, error };
        let listener = std::net::TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.enable_io().enable_time().build().map_err(listen)?;
        let signals = {
            let _inside = runtime.enter();
            Signals::new().map_err(listen)?
        };
        let limits = options.limits;
        let questions: Arc<dyn Questions> = Arc::new(Embedded::new(store.clone()));
        let merges = Merges::new(store.clone(), questions.clone(), attempts.clone(), &limits);
        let app = App {
            store,
            questions,
            merges: Arc::new(merges),
            tokens: RwLock::new(tokens),
            rates: Rates::new(limits.requests_burst, limits.requests_per_second),
            in_flight: InFlight::new(limits.token_in_flight_bytes_max),
            limits,
            attempts,
            counters: Default::default(),
        };
        Ok(Server {
            app: Arc::new(app),
            listener,
            address,
            tls,
            token_file: options.token_file,
            runtime,
            signals,
        })
    }

    /// Where it can be reached: the port that was asked for, or the one that was free.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Until SIGTERM or SIGINT: then what is under way is finished.
    pub fn run(self) -> Result<()> {
        let merges = self.app.merges.clone();
        let accepting = Accepting {
            app: self.app,
            address: self.address,
            tls: self.tls,
            token_file: self.token_file,
            signals: self.signals,
        };
        let served = self.runtime.block_on(accepting.accept(self.listener));
        merges.stop();
        self.runtime.shutdown_timeout(SHUTDOWN);
        served
    }
}

/// What is needed to take connections.
struct Accepting {
    app: Arc<App>,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    token_file: PathBuf,
    signals: Signals,
}

impl Accepting {
    async fn accept(mut self, listener: std::net::TcpListener) -> Result<()> {
        let address = self.address;
        let failed = |error| Error::Listen { address, error };
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let places = Arc::new(Semaphore::new(self.app.limits.connections_max));
        let graceful = GracefulShutdown::new();
        let router = router(self.app.clone());
        let (store, scheme) = (
            self.app.store.folder(),
            if self.tls.is_some() { "https" } else { "http" },
        );
        let listening = json!({ "address": self.address.to_string(), "scheme": scheme, "store": store });
        journal::say("listening", listening);
        let signals = &mut self.signals;
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => break,
                _ = signals.interrupt.recv() => break,
                _ = signals.reread.recv() => self.app.reread_tokens(&self.token_file),
                accepted = listener.accept() => match accepted {
                    Err(error) => {
                        journal::say("accept", json!({ "error": error.to_string() }));
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                    Ok((stream, peer)) => match places.clone().try_acquire_owned() {
                        // There is nobody to tell: who opens so many connections does not read.
                        Err(_) => journal::say("too many connections", json!({ "peer": peer.to_string() })),
                        Ok(place) => {
                            let connection = Connection {
                                router: router.clone(),
                                tls: self.tls.clone(),
                                head_timeout: self.app.limits.head_timeout,
                                watcher: graceful.watcher(),
                                _place: place,
                            };
                            tokio::spawn(connection.serve(stream));
                        }
                    },
                },
            }
        }
        drop(listener);
        journal::say("stopping", json!({}));
        let in_time = timeout(SHUTDOWN, graceful.shutdown()).await.is_ok();
        journal::say("stopped", json!({ "finished_requests": in_time }));
        Ok(())
    }
}

struct Connection {
    router: Router,
    tls: Option<TlsAcceptor>,
    head_timeout: Duration,
    watcher: hyper_util::server::graceful::Watcher,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        // Answers are written whole.
        _ = stream.set_nodelay(true);
        match &self.tls {
            None => self.answer(stream).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = timeout(self.head_timeout, tls.accept(stream)).await {
                    self.answer(stream).await;
                }
            }
        }
    }

    /// What goes wrong here went wrong at the other end.
    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.head_timeout);
        let service = TowerToHyperService::new(self.router);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        _ = self.watcher.watch(connection).await;
    }
}

fn acceptor(tls: &Tls) -> Result<TlsAcceptor> {
    let read = |path: &PathBuf| fs::read(path).map_err(|e| Error::io("read", path, e));
    let wrong = |path: &PathBuf, what: String| Error::Tls {
        path: path.clone(),
        what,
    };
    let certificates = CertificateDer::pem_slice_iter(&read(&tls.certificate)?)
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| wrong(&tls.certificate, e.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&read(&tls.key)?).map_err(|e| wrong(&tls.key, e.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|e| wrong(&tls.certificate, e.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
