//! A client for memcached: so many requests over so many connections, one outstanding on each.
use crate::command::Failure;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 100;
/// One request in so many is a set.
const SET_EVERY: u64 = 10;

#[derive(Clone, Copy)]
pub enum Requests {
    StoreAll,
    Random(u64),
}

/// A port that nobody uses at the moment.
pub fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Waits until somebody listens there.
pub fn wait_for(port: u16) -> Result<(), Failure> {
    for _ in 0..200 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Err(Failure::new(format!(
        "the server does not listen on port {port} after 10 s"
    )))
}

/// Asks for keys at random, with some sets in between; or stores them all.
pub fn memcached(port: u16, connections: usize, requests: Requests) -> Result<(), Failure> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let mut state = 1u64;
    let (mut request, count) = match requests {
        Requests::StoreAll => (0, KEYS),
        Requests::Random(count) => (KEYS, KEYS + count),
    };
    while request < count {
        for stream in &mut streams {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = state >> 33;
            let text = match request {
                first if first < KEYS => set(first),
                _ if random.is_multiple_of(SET_EVERY) => set(random % KEYS),
                _ => format!("get key-{}\r\n", random % KEYS),
            };
            stream.write_all(text.as_bytes())?;
            request += 1;
        }
        for stream in &mut streams {
            read_answer(stream)?;
        }
    }
    Ok(())
}

fn set(key: u64) -> String {
    format!("set key-{key} 0 0 {VALUE_BYTES}\r\n{}\r\n", "v".repeat(VALUE_BYTES))
}

fn read_answer(stream: &mut TcpStream) -> Result<(), Failure> {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.ends_with(b"END\r\n") && !answer.ends_with(b"STORED\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Err(Failure::new("memcached closed a connection")),
            bytes => answer.extend_from_slice(&buffer[..bytes]),
        }
    }
    Ok(())
}
