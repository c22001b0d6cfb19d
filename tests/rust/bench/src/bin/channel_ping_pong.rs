//! Pairs of threads that send a number back and forth over crossbeam channels. Size: thousands of rounds, shared by the
//! pairs; an odd thread makes one more pair.

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::bounded;
use rust_bench::Arguments;
use std::thread;

fn main() {
    let arguments = Arguments::from_command_line(600);
    let pairs = arguments.threads.div_ceil(2);
    let rounds = 1000 * arguments.size / pairs;
    let checksum: u64 = thread::scope(|scope| {
        let players: Vec<_> = (0..pairs)
            .map(|_| {
                let (to_pong, ping) = bounded(1);
                let (to_ping, pong) = bounded(1);
                scope.spawn(move || return_all(ping, to_ping));
                scope.spawn(move || play(rounds, to_pong, pong))
            })
            .collect();
        players
            .into_iter()
            .map(|player| player.join().expect("a player that ends its game"))
            .sum()
    });
    println!("{checksum:016x}");
}

fn play(rounds: usize, there: Sender<u64>, back: Receiver<u64>) -> u64 {
    (0..rounds).fold(0, |number, _| {
        there.send(number).expect("the other side plays on");
        back.recv().expect("the other side plays on")
    })
}

fn return_all(balls: Receiver<u64>, back: Sender<u64>) {
    for ball in balls {
        back.send(ball + 1).expect("the other side plays on");
    }
}
