//! tokio: several workers, timers, sockets on loopback.
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc;

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tasks_and_channels() {
    let (sender, mut receiver) = mpsc::channel(4);
    for who in 0..5 {
        let sender = sender.clone();
        tokio::spawn(async move {
            for item in 0..20 {
                sender.send((who, item)).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    drop(sender);
    let mut order = Vec::new();
    while let Some(item) = receiver.recv().await {
        order.push(item);
    }
    println!("{order:?}");
    assert_eq!(order.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_and_select() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let notify = Arc::new(Notify::new());
    let tasks: Vec<_> = (0..6u64)
        .map(|who| {
            let (order, notify) = (Arc::clone(&order), Arc::clone(&notify));
            tokio::spawn(async move {
                let what = tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(1 + who % 3)) => "slept",
                    () = notify.notified() => "woken",
                };
                order.lock().await.push((who, what));
                notify.notify_one();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    println!("{:?}", order.lock().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn echo_on_loopback() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    println!("{address}");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                    stream.write_all(&buffer[..bytes]).await.unwrap();
                }
            });
        }
    });
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let clients: Vec<_> = (0..4)
        .map(|who| {
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                for round in 0..10 {
                    let sent = format!("client {who} round {round}");
                    stream.write_all(sent.as_bytes()).await.unwrap();
                    let mut back = vec![0; sent.len()];
                    stream.read_exact(&mut back).await.unwrap();
                    assert_eq!(back, sent.as_bytes());
                    order.lock().unwrap().push(who);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    println!("{:?}", order.lock().unwrap());
}

#[test]
fn blocking_pool_and_shutdown() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let names = runtime.block_on(async {
        let tasks: Vec<_> = (0..4)
            .map(|_| tokio::task::spawn_blocking(|| format!("{:?}", std::thread::current().id())))
            .collect();
        let mut names = Vec::new();
        for task in tasks {
            names.push(task.await.unwrap());
        }
        names
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    println!("{names:?}");
}
