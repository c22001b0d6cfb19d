//! Clients and a server that echoes, over TCP on loopback, all on tokio's multi-thread runtime. Size: thousands of
//! messages, shared by four clients; threads: workers of the runtime.

use rust_bench::Arguments;
use rust_bench::Numbers;
use std::io;
use std::net::SocketAddr;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::runtime;

const CLIENTS: usize = 4;
const MESSAGE_BYTES: usize = 64;

fn main() -> io::Result<()> {
    let arguments = Arguments::from_command_line(30);
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(arguments.threads)
        .enable_io()
        .build()?;
    let checksum = runtime.block_on(run(1000 * arguments.size / CLIENTS))?;
    println!("{checksum:016x}");
    Ok(())
}

/// The sum of what came back to the clients.
async fn run(messages_each: usize) -> io::Result<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| tokio::spawn(talk(address, client as u64, messages_each)))
        .collect();
    let mut checksum = 0u64;
    for client in clients {
        checksum = checksum.wrapping_add(client.await??);
    }
    Ok(checksum)
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE_BYTES];
    loop {
        match stream.read_exact(&mut message).await {
            Ok(_) => stream.write_all(&message).await?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

async fn talk(address: SocketAddr, client: u64, messages: usize) -> io::Result<u64> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut checksum = 0u64;
    let mut message = [0; MESSAGE_BYTES];
    for number in Numbers::from_seed(client).take(messages) {
        message[..8].copy_from_slice(&number.to_le_bytes());
        stream.write_all(&message).await?;
        stream.read_exact(&mut message).await?;
        let (first, _) = message.split_first_chunk().expect("a message is longer than a number");
        checksum = checksum.wrapping_add(u64::from_le_bytes(*first));
    }
    Ok(checksum)
}
