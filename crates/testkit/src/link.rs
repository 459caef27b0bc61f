//! A TCP link that gives a server on this machine the shape of a far one.
//!
//! Every answer starts later by the latency, each connection carries at most its rate in each
//! direction, and all answers together at most the total rate. Bytes are never changed. Memory is
//! bounded: what is in flight on a connection fits its queue, and a full queue stops reading.
//!
//! ```text
//!   client ──▶ requests: paced ──────────────────────────────▶ server
//!   client ◀── queue, each chunk at its time ◀── paced, gate ◀── server
//! ```

mod flight;
mod wire;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::wait;
use flight::Flight;
use wire::Wire;

const CHUNK_BYTES: usize = 64 << 10;
/// What fits a connection's queue at most, whatever latency and rate are.
const FLIGHT_BYTES_MAX: usize = 16 << 20;
/// Threads of a link are many and small.
const STACK_BYTES: usize = 256 << 10;

/// How far and how wide a link is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// How much later each answer starts.
    pub latency: Duration,
    /// Bytes a second on each connection, in each direction; `None` is as fast as the machine.
    pub connection_rate: Option<u64>,
    /// Bytes a second of all answers together.
    pub total_rate: Option<u64>,
}

/// A link to a server; everything it carries ends with it.
#[derive(Debug)]
pub struct SlowLink {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    shape: Shape,
    total: Wire,
    // For answers, whose requests the store has carried out.
    gate: Gate,
    // For requests, of which the store hears nothing.
    request_gate: Gate,
    ended: AtomicBool,
    // Both ends of every connection that may still be open, to cut them.
    sockets: Mutex<Vec<TcpStream>>,
    connections: AtomicUsize,
    answer_bytes: AtomicU64,
    requests: AtomicU64,
}

/// Holds back the answers on connections whose last request contains some words.
#[derive(Debug, Default)]
struct Gate {
    // Invariant: `held` counts the connections that wait here.
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    words: Option<String>,
    /// How often the words changed: what was held for earlier ones is let go.
    turn: u64,
    held: usize,
}

impl SlowLink {
    /// A link of `shape` to `server`, on a free port of this machine.
    pub fn to(server: SocketAddr, shape: Shape) -> SlowLink {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            server,
            shape,
            total: Wire::new(shape.total_rate),
            gate: Gate::default(),
            request_gate: Gate::default(),
            ended: AtomicBool::new(false),
            sockets: Mutex::default(),
            connections: AtomicUsize::new(0),
            answer_bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        });
        let accepting = spawn("link-accept", {
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        SlowLink { address, shared, accepting: Some(accepting) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of what is behind it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on holds back answers to requests that contain `words`, such as an object's path,
    /// and lets those go that other words held.
    pub fn hold_answers_to(&self, words: &str) {
        self.shared.gate.change(Some(words));
    }

    /// From now on keeps requests that contain `words` from the server, for good: a release only
    /// breaks their connections.
    pub fn stop_requests_to(&self, words: &str) {
        self.shared.request_gate.change(Some(words));
    }

    /// Lets everything that is held or stopped go, and holds nothing more.
    pub fn release(&self) {
        self.shared.gate.change(None);
        self.shared.request_gate.change(None);
    }

    /// How many answers are held at the moment.
    pub fn held(&self) -> usize {
        self.shared.gate.state().held
    }

    /// How many requests are stopped at the moment.
    pub fn stopped(&self) -> usize {
        self.shared.request_gate.state().held
    }

    /// Breaks every connection there is, as a network does; new ones are accepted.
    pub fn cut(&self) {
        for socket in self.shared.sockets().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many bytes the server has answered.
    pub fn answer_bytes(&self) -> u64 {
        self.shared.answer_bytes.load(Ordering::Relaxed)
    }

    /// How many requests were made, by clients that wait for an answer before they ask again.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.release();
        // Wakes the thread that accepts, which then sees the end.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.cut();
    }
}

impl Shared {
    fn sockets(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    fn state(&self) -> std::sync::MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, words: Option<&str>) {
        let mut state = self.state();
        state.words = words.map(str::to_owned);
        state.turn += 1;
        self.changed.notify_all();
    }

    /// The turn that a request is held in, if its words are those.
    fn holds(&self, request: &[u8]) -> Option<u64> {
        let state = self.state();
        let words = state.words.as_ref()?.as_bytes();
        let found = request.windows(words.len()).any(|window| window == words);
        found.then_some(state.turn)
    }

    /// Waits until what is held in this turn is let go.
    fn wait(&self, turn: u64) {
        let mut state = self.state();
        state.held += 1;
        while state.turn == turn {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.held -= 1;
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        // A client or a server that went away in between is the two ends' business.
        let Ok(client) = client else { continue };
        let _ = carry(&client, shared);
    }
}

/// Starts the three threads of one connection.
fn carry(client: &TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let server = TcpStream::connect(shared.server)?;
    shared.connections.fetch_add(1, Ordering::Relaxed);
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    {
        let mut sockets = shared.sockets();
        // Those whose ends have both gone away say so.
        sockets.retain(|socket| socket.peer_addr().is_ok());
        sockets.extend([client.try_clone()?, server.try_clone()?]);
    }
    let held_in = Arc::new(Mutex::new(None));
    let flight = Arc::new(Flight::new(flight_bytes(shared.shape)));

    let (from, to) = (client.try_clone()?, server.try_clone()?);
    let (held, link) = (Arc::clone(&held_in), Arc::clone(shared));
    spawn("link-requests", move || {
        let _ = requests(from, &to, &held, &link);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (sender, link) = (Arc::clone(&flight), Arc::clone(shared));
    spawn("link-answers", move || {
        let _ = answers(server, &sender, &held_in, &link);
        sender.end();
    });
    let mut to = client.try_clone()?;
    spawn("link-deliver", move || {
        while let Some(chunk) = flight.next() {
            wait::sleep_until(chunk.due);
            if to.write_all(&chunk.bytes).is_err() {
                flight.end();
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn requests(
    mut from: TcpStream,
    mut to: &TcpStream,
    held_in: &Mutex<Option<u64>>,
    link: &Shared,
) -> io::Result<()> {
    let wire = Wire::new(link.shape.connection_rate);
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        // A chunk in the middle of a body does not start a new request.
        if is_request_start(&buffer[..len]) {
            link.requests.fetch_add(1, Ordering::Relaxed);
            *held_in.lock().unwrap_or_else(PoisonError::into_inner) =
                link.gate.holds(&buffer[..len]);
            if let Some(turn) = link.request_gate.holds(&buffer[..len]) {
                link.request_gate.wait(turn);
                return Ok(());
            }
        }
        wait::sleep_until(wire.send(len).end);
        to.write_all(&buffer[..len])?;
    }
}

fn answers(
    mut from: TcpStream,
    flight: &Flight,
    held_in: &Mutex<Option<u64>>,
    link: &Shared,
) -> io::Result<()> {
    let wire = Wire::new(link.shape.connection_rate);
    loop {
        let mut bytes = vec![0; CHUNK_BYTES];
        let len = from.read(&mut bytes)?;
        if len == 0 {
            return Ok(());
        }
        bytes.truncate(len);
        let turn = *held_in.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turn {
            link.gate.wait(turn);
        }
        link.answer_bytes.fetch_add(len as u64, Ordering::Relaxed);
        let slot = wire.send(len);
        // The shared wire is asked for only when this connection could really send.
        wait::sleep_until(slot.start);
        let due = slot.end.max(link.total.send(len).end) + link.shape.latency;
        if !flight.push(bytes, due) {
            return Ok(());
        }
    }
}

fn is_request_start(bytes: &[u8]) -> bool {
    [&b"GET "[..], b"PUT ", b"POST ", b"HEAD ", b"DELETE "]
        .iter()
        .any(|verb| bytes.starts_with(verb))
}

/// What a full pipe holds, twice, so that the queue is never what slows the link.
fn flight_bytes(shape: Shape) -> usize {
    let rate = shape.connection_rate.or(shape.total_rate).unwrap_or(1 << 30);
    let pipe = u128::from(rate) * shape.latency.as_millis() / 1000 * 2;
    usize::try_from(pipe).unwrap_or(usize::MAX).saturating_add(1 << 20).min(FLIGHT_BYTES_MAX)
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = Builder::new().name(name.into()).stack_size(STACK_BYTES);
    builder.spawn(body).expect("the system has threads to spare")
}

#[cfg(test)]
mod tests;
