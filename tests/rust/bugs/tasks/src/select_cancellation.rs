//! A server that reads frames (a length, then so many bytes) and listens to commands at the same time.
//!
//! `select!` drops the future of the branch that did not win. `read_frame` keeps what it has read of a frame in itself,
//! so a command that arrives in the middle of a frame throws the first half away, and the rest is read as if a frame
//! began there. At fault is `serve`: only futures that are "cancel safe" may stand in a `select!` in a loop; this one
//! has to be kept across turns, or the half frame has to live outside it.

use tokio::select;
use tokio::sync::mpsc::Receiver;

/// The next frame, or `None` at the end of the stream.
pub async fn read_frame(bytes: &mut Receiver<u8>) -> Option<Vec<u8>> {
    let length = bytes.recv().await?;
    let mut frame = Vec::with_capacity(length.into());
    for _ in 0..length {
        frame.push(bytes.recv().await?);
    }
    Some(frame)
}

pub enum Command {
    Count,
}

/// All frames, and how many commands came in between.
pub async fn serve(mut bytes: Receiver<u8>, mut commands: Receiver<Command>) -> (Vec<Vec<u8>>, usize) {
    let mut frames = Vec::new();
    let mut command_count = 0;
    loop {
        select! {
            frame = read_frame(&mut bytes) => match frame {
                Some(frame) => frames.push(frame),
                None => return (frames, command_count),
            },
            Some(Command::Count) = commands.recv() => command_count += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Command;
    use super::serve;
    use tokio::sync::mpsc;

    const FRAMES: usize = 20;
    const COMMANDS: usize = 3;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn select_cancellation() {
        let (byte_sender, bytes) = mpsc::channel(8);
        let (command_sender, commands) = mpsc::channel(1);
        let client = tokio::spawn(async move {
            for byte in [3, b'a', b'b', b'c'].repeat(FRAMES) {
                byte_sender.send(byte).await.unwrap();
            }
        });
        let operator = tokio::spawn(async move {
            for _ in 0..COMMANDS {
                // The server may be done before the operator is.
                let _is_listening = command_sender.send(Command::Count).await;
            }
        });
        let (frames, _) = serve(bytes, commands).await;
        client.await.unwrap();
        operator.await.unwrap();
        assert_eq!(
            frames,
            vec![b"abc"; FRAMES],
            "a command in the middle of a frame cut it in two"
        );
    }
}
