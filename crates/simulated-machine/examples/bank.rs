use constraint_solver::*;
use run_model::*;
use simulated_machine::*;
use std::time::Instant;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (threads, ops, accounts, values, method, seed) = (a[0], a[1], a[2], a[3], a[4], a[5]);
    let mut random = Random::new(seed);
    let base = 0x6000_0000_1000u64 - 64;
    let mut bodies: Vec<Vec<Instruction>> =
        vec![(1..=threads as u32).map(|t| Instruction::Spawn { thread: t }).collect()];
    for _ in 0..threads {
        let mut b = Vec::new();
        for _ in 0..ops {
            let (x, y) = (base + 8 * random.below(accounts), base + 8 * random.below(accounts));
            b.push(Instruction::Load { address: x, bytes: 8 });
            b.push(Instruction::Load { address: y, bytes: 8 });
            b.push(Instruction::Store { address: x, bytes: 8 });
            b.push(Instruction::Store { address: y, bytes: 8 });
        }
        bodies.push(b);
    }
    bodies[0].extend((1..=threads as u32).map(|t| Instruction::Join { thread: t }));
    bodies[0].extend((0..accounts).map(|i| Instruction::Load {
        address: base + 8 * i,
        bytes: 8,
    }));
    let program = Program {
        threads: bodies,
        chunks: 1 + accounts / 8,
        values,
    };
    let t = Instant::now();
    let recording = record_in_steps(&program, seed, Method::ALL[method as usize], Fault::None);
    let logs = recording.logs();
    eprintln!(
        "recorded in {:?}, {} records",
        t.elapsed(),
        logs.threads.iter().map(|l| l.records.len()).sum::<usize>()
    );
    let t = Instant::now();
    match solve(&logs, Hints::Use) {
        Ok(s) => {
            println!("solved in {:?} {:?}", t.elapsed(), s.stats);
            let t = Instant::now();
            println!(
                "{:?} checked in {:?}",
                schedule_checker::check(&logs, &s.schedule),
                t.elapsed()
            );
            println!("{:?}", Replay::new(&program, &recording, &s.schedule).run(1));
        }
        Err(e) => println!("{:?} {e}", t.elapsed()),
    }
}
