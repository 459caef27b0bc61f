use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::{Shape, SlowLink};
use crate::{noise, wait};

/// A server that answers every 4-byte request `n` with `n` bytes.
fn server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 4];
                while stream.read_exact(&mut request).is_ok() {
                    let len = u32::from_le_bytes(request) as usize;
                    if stream.write_all(&noise(1, len)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn ask(stream: &mut TcpStream, len: u32) -> Duration {
    let started = wait::now();
    stream.write_all(&len.to_le_bytes()).unwrap();
    let mut answer = vec![0; len as usize];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer == noise(1, len as usize), "bytes changed on the way");
    started.elapsed()
}

#[test]
fn an_answer_is_later_by_the_latency_and_as_long_as_the_rate_asks() {
    let shape = Shape {
        latency: Duration::from_millis(20),
        connection_rate: Some(40_000_000),
        total_rate: None,
    };
    let link = SlowLink::to(server(), shape);
    let mut stream = TcpStream::connect(link.address()).unwrap();
    assert!(Duration::from_millis(20) <= ask(&mut stream, 1));
    // 8 MB at 40 MB/s are 200 ms, less what a wire may catch up.
    let took = ask(&mut stream, 8_000_000);
    assert!(Duration::from_millis(210) <= took, "{took:?}");
    assert_eq!(link.answer_bytes(), 8_000_001);
}

#[test]
fn connections_share_the_total_rate() {
    let shape = Shape { total_rate: Some(40_000_000), ..Shape::default() };
    let link = SlowLink::to(server(), shape);
    let started = wait::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut stream = TcpStream::connect(link.address()).unwrap();
            scope.spawn(move || ask(&mut stream, 2_000_000));
        }
    });
    let took = started.elapsed();
    assert!(Duration::from_millis(190) <= took, "{took:?}");
    assert_eq!(link.connections(), 4);
}

#[test]
fn a_held_answer_waits_while_others_pass() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = SlowLink::to(listener.local_addr().unwrap(), Shape::default());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 64];
            let len = stream.read(&mut request).unwrap();
            stream.write_all(&request[..len]).unwrap();
        }
    });
    let echo = |request: &str| {
        let mut stream = TcpStream::connect(link.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, request);
    };
    link.hold_answers_to("/slow");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| echo("GET /slow"));
        wait::until("the answer to be held", Duration::from_secs(20), || link.held() == 1);
        echo("GET /quick");
        assert!(!slow.is_finished());
        // Other words let it go.
        link.hold_answers_to("/other");
        slow.join().unwrap();
        let other = scope.spawn(|| echo("GET /other"));
        wait::until("the other to be held", Duration::from_secs(20), || link.held() == 1);
        link.release();
        other.join().unwrap();
    });
    assert_eq!(link.held(), 0);
}

#[test]
fn a_cut_breaks_connections_and_new_ones_work() {
    let link = SlowLink::to(server(), Shape::default());
    let mut stream = TcpStream::connect(link.address()).unwrap();
    ask(&mut stream, 10);
    link.cut();
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    let mut stream = TcpStream::connect(link.address()).unwrap();
    ask(&mut stream, 10);
}

#[test]
fn a_link_counts_the_requests_that_it_carries() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = SlowLink::to(listener.local_addr().unwrap(), Shape::default());
    let mut client = TcpStream::connect(link.address()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for request in [&b"GET /one"[..], b"PUT /two", b"its body"] {
        client.write_all(request).unwrap();
        let mut heard = [0; 8];
        server.read_exact(&mut heard).unwrap();
        server.write_all(b"yes").unwrap();
        let mut answer = [0; 3];
        client.read_exact(&mut answer).unwrap();
    }
    assert_eq!(link.requests(), 2);
}
