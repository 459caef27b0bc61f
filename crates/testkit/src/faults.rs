//! A proxy before a store that lets things go wrong, as networks and stores do.
//!
//! It speaks HTTP/1.1 and passes bytes on unchanged, the `Host` that a request is signed with
//! among them. Which request meets with which fault is drawn from a seed, or asked for by words in
//! the request's first line.
//!
//! ```text
//!   client ──request──▶ fault? ──no──▶ server ──answer──▶ client
//!                         │ before: the server never sees it whole
//!                         └ after: the server's answer goes nowhere, or half the way
//! ```

mod choice;
mod message;

pub use choice::{Fault, Weather};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use message::{Head, Length, Line};
use rustix::net::sockopt::set_socket_linger;

/// Threads of a proxy are many and small.
const STACK_BYTES: usize = 256 << 10;

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head>\
    <body><h1>Please sign in<br>to use this network</h1></body></html>\n";

thread_local! {
    static AROUND: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// A proxy; everything it carries ends with it.
#[derive(Debug)]
pub struct Faults {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    weather: Weather,
    requests: AtomicU64,
    state: Mutex<State>,
    // Wakes those who stall.
    changed: Condvar,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Faults that were asked for, each with words of the request that is to meet with it.
    asked: Vec<(String, Fault)>,
    /// Those that every such request meets with.
    lasting: Vec<(String, Fault)>,
    /// Whether the store is to be one that knows no conditions of writes.
    knows_no_conditions: bool,
    met: BTreeMap<Fault, u64>,
    // Both ends of every connection that may still be open, to cut them.
    sockets: Vec<TcpStream>,
}

/// Whether a connection can take another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    On,
    Down,
}

impl Faults {
    /// A proxy before `server`, on a free port of this machine.
    pub fn before(server: SocketAddr, weather: Weather) -> Faults {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            server,
            weather,
            requests: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let accepting = spawn("faults-accept", {
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Faults { address, shared, accepting: Some(accepting) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of what is behind it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request whose first line contains all of `words`, between blanks, meets with
    /// `fault`.
    pub fn next(&self, words: &str, fault: Fault) {
        self.shared.state().asked.push((words.to_owned(), fault));
    }

    /// From now on every request whose first line contains all of `words`, between blanks, meets with
    /// `fault`.
    pub fn always(&self, words: &str, fault: Fault) {
        self.shared.state().lasting.push((words.to_owned(), fault));
    }

    /// From now on writes that name a condition are refused, as stores do that know none.
    pub fn refuse_conditions(&self) {
        self.shared.state().knows_no_conditions = true;
    }

    /// Takes back what [`Faults::always`] asked for.
    pub fn no_more(&self) {
        self.shared.state().lasting.clear();
    }

    /// How many of the faults that were asked for nobody has met with; they are taken back.
    pub fn unmet(&self) -> usize {
        self.shared.state().asked.drain(..).count()
    }

    /// How many requests came.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// How many requests met with each fault.
    pub fn met(&self) -> BTreeMap<Fault, u64> {
        self.shared.state().met.clone()
    }

    /// Runs `body`; the mounts that are planned in there, on this thread, of buckets that are
    /// reached at `endpoint`, are made through this proxy.
    pub fn around<T>(&self, endpoint: &str, body: impl FnOnce() -> T) -> T {
        /// Also when a test fails, since its thread may have another one to run.
        struct Restored(Option<(String, String)>);
        impl Drop for Restored {
            fn drop(&mut self) {
                AROUND.set(self.0.take());
            }
        }
        let ours = (endpoint.to_owned(), self.endpoint());
        let _restored = Restored(AROUND.replace(Some(ours)));
        body()
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.changed.notify_all();
        // Wakes the thread that accepts, which then sees the end.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for socket in self.shared.state().sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Where a mount that is planned here reaches what `endpoint` is.
pub(crate) fn way_to(endpoint: &str) -> String {
    AROUND.with_borrow(|around| match around {
        Some((behind, proxy)) if behind == endpoint => proxy.clone(),
        Some(_) | None => endpoint.to_owned(),
    })
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the request that begins with `head` meets with.
    fn fault(&self, head: &Head) -> Option<Fault> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let line = head.first_line();
        let mut state = self.state();
        let is_asked =
            |(words, _): &(String, Fault)| words.split(' ').all(|word| line.contains(word));
        let asked = state.asked.iter().position(is_asked).map(|at| state.asked.remove(at).1);
        let lasting =
            || state.lasting.iter().find(|lasting| is_asked(lasting)).map(|found| found.1);
        let refused =
            (state.knows_no_conditions && names_condition(head)).then_some(Fault::Unknown);
        let weather = || self.weather.fault(number);
        let mut fault = asked.or_else(lasting).or(refused).or_else(weather)?;
        if fault == Fault::ErrorWithin && !takes_long(head) {
            fault = Fault::ServerError;
        }
        let met = state.met.entry(fault).or_default();
        if fault == Fault::Stall && self.weather.stalls_max <= *met {
            return None;
        }
        *met += 1;
        Some(fault)
    }

    /// Lets the time of a stall pass, or ends with the proxy.
    fn stall(&self) {
        let going = |_: &mut State| !self.ended.load(Ordering::Acquire);
        let _waited = self.changed.wait_timeout_while(self.state(), self.weather.stall, going);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        // A client or a server that went away in between is the two ends' business.
        let Ok(client) = client else { continue };
        let shared = Arc::clone(shared);
        spawn("faults-carry", move || {
            // An end without a word is what a proxy makes of every error.
            let _ = carry(client, &shared);
        });
    }
}

/// Carries the requests of one connection, one after the other.
fn carry(client: TcpStream, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(shared.server)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    {
        let mut state = shared.state();
        // Those whose ends have both gone away say so.
        state.sockets.retain(|socket| socket.peer_addr().is_ok());
        state.sockets.extend([client.try_clone()?, server.try_clone()?]);
    }
    let (mut client, mut server) = (Line::new(client), Line::new(server));
    let result = exchange_all(&mut client, &mut server, shared);
    let _ = client.stream().shutdown(Shutdown::Both);
    let _ = server.stream().shutdown(Shutdown::Both);
    result
}

fn exchange_all(client: &mut Line, server: &mut Line, shared: &Shared) -> io::Result<()> {
    while let Some(head) = client.head()? {
        let goes = match shared.fault(&head) {
            None => pass(client, server, &head)?,
            Some(fault) => meet(fault, (client, server), &head, shared)?,
        };
        if goes == Goes::Down {
            break;
        }
    }
    Ok(())
}

fn meet(
    fault: Fault,
    (client, server): (&mut Line, &mut Line),
    head: &Head,
    shared: &Shared,
) -> io::Result<Goes> {
    match fault {
        Fault::Stall => {
            shared.stall();
            pass(client, server, head)
        }
        Fault::ServerError => refuse(client, head, "500 Internal Server Error", "InternalError"),
        Fault::SlowDown => refuse(client, head, "503 Slow Down", "SlowDown"),
        Fault::ErrorWithin => refuse(client, head, "200 OK", "InternalError"),
        Fault::Unknown => refuse(client, head, "501 Not Implemented", "NotImplemented"),
        Fault::Archived => refuse(client, head, "403 Forbidden", "InvalidObjectState"),
        Fault::Page | Fault::ErrorPage => {
            take(client, head)?;
            client.send(&page(head, fault))?;
            Ok(Goes::On)
        }
        Fault::PageAfter => {
            request(client, server, head)?;
            answer(server, head)?;
            client.send(&page(head, fault))?;
            Ok(Goes::On)
        }
        Fault::ResetBefore => {
            reset_in_request(client, server, head)?;
            Ok(Goes::Down)
        }
        Fault::ResetAfter => {
            request(client, server, head)?;
            answer(server, head)?;
            set_socket_linger(client.stream(), Some(Duration::ZERO))?;
            Ok(Goes::Down)
        }
        Fault::Truncated => {
            request(client, server, head)?;
            let (head, body) = answer(server, head)?;
            let whole = [head, body].concat();
            // In the middle of the body, and where there is none, of the head.
            client.send(&whole[..whole.len() / 2])?;
            Ok(Goes::Down)
        }
    }
}

/// Whether it is a write that names a condition.
fn names_condition(head: &Head) -> bool {
    let is_write = matches!(head.method(), "PUT" | "POST");
    is_write && ["if-match", "if-none-match"].iter().any(|name| head.header(name).is_some())
}

/// Whether S3 begins to answer before it knows how the request ends: uploads in parts, and copies.
fn takes_long(head: &Head) -> bool {
    head.method() == "POST" || head.header("x-amz-copy-source").is_some()
}

/// Carries one request and its answer.
fn pass(client: &mut Line, server: &mut Line, head: &Head) -> io::Result<Goes> {
    request(client, server, head)?;
    let answer = answer_head(server)?;
    client.send(&answer.bytes)?;
    let length = answer.answer_length(head.method());
    server.body(length, &mut |piece| client.send(piece))?;
    let closes = |head: &Head| head.header("connection") == Some("close");
    let ends = length == Length::Rest || closes(head) || closes(&answer);
    Ok(if ends { Goes::Down } else { Goes::On })
}

/// Sends a whole request on.
fn request(client: &mut Line, server: &mut Line, head: &Head) -> io::Result<()> {
    invite(client, head)?;
    server.send(&head.bytes)?;
    client.body(head.request_length(), &mut |piece| server.send(piece))
}

/// Sends half of a request on and breaks both connections.
fn reset_in_request(client: &mut Line, server: &mut Line, head: &Head) -> io::Result<()> {
    invite(client, head)?;
    let mut bytes = head.bytes.clone();
    client.body(head.request_length(), &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    server.send(&bytes[..bytes.len() / 2])?;
    for line in [client, server] {
        set_socket_linger(line.stream(), Some(Duration::ZERO))?;
    }
    Ok(())
}

/// Takes a whole request, for nobody.
fn take(client: &mut Line, head: &Head) -> io::Result<()> {
    invite(client, head)?;
    client.body(head.request_length(), &mut |_| Ok(()))
}

/// Who wants to be asked for the body first is.
fn invite(client: &mut Line, head: &Head) -> io::Result<()> {
    match head.header("expect") {
        Some(_) => client.send(b"HTTP/1.1 100 Continue\r\n\r\n"),
        None => Ok(()),
    }
}

fn answer_head(server: &mut Line) -> io::Result<Head> {
    loop {
        let head = server.head()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if !head.is_interim() {
            return Ok(head);
        }
    }
}

/// The whole answer to the request `head`, head and body.
fn answer(server: &mut Line, head: &Head) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let answer = answer_head(server)?;
    let mut body = Vec::new();
    server.body(answer.answer_length(head.method()), &mut |piece| {
        body.extend_from_slice(piece);
        Ok(())
    })?;
    Ok((answer.bytes, body))
}

/// Answers as S3 does when it fails.
fn refuse(client: &mut Line, head: &Head, status: &str, code: &str) -> io::Result<Goes> {
    take(client, head)?;
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
         <Message>one of the faults of a test</Message><RequestId>0</RequestId></Error>"
    );
    client.send(&message(head, status, "application/xml", &body))?;
    Ok(Goes::On)
}

fn page(head: &Head, fault: Fault) -> Vec<u8> {
    let status = if fault == Fault::ErrorPage { "500 Internal Server Error" } else { "200 OK" };
    message(head, status, "text/html; charset=utf-8", PAGE)
}

/// An answer to the request `head`.
fn message(head: &Head, status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let body = if head.method() == "HEAD" { "" } else { body };
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = Builder::new().name(name.into()).stack_size(STACK_BYTES);
    builder.spawn(body).expect("the system has threads to spare")
}
