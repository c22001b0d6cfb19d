use constraint_solver::*;
use run_model::*;
use simulated_machine::*;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let shapes = [Shape::SMALL, Shape::MEDIUM, Shape::LARGE, Shape::HOT];
    let mut program = generate(a[0], shapes[a[1] as usize]);
    program.values = [0, 2, 3, 5][(a[0] / 5 % 4) as usize];
    let fault = match a.get(3) {
        Some(t) => Fault::Cut {
            thread: *t as u32,
            bytes: a[4],
        },
        None => Fault::None,
    };
    let recording = record_in_steps(&program, a[0], Method::ALL[a[2] as usize], fault);
    let logs = recording.logs();
    for (t, log) in logs.threads.iter().enumerate() {
        println!("thread {t}: {} events torn {}", log.events, log.torn);
        for r in &log.records {
            println!(
                "  {} {:?} {:#x} +{} v{} = {:#x} {:?}",
                r.event, r.kind, r.object, r.access.0, r.version, r.value, r.sources
            );
        }
    }
    match solve(&logs, Hints::Use) {
        Ok(s) => {
            println!("{:?}", s.stats);
            for (t, log) in s.schedule.threads.iter().enumerate() {
                for g in &log.gates {
                    if !g.waits.is_empty() {
                        println!("{t} {} waits {:?}", g.record.event, g.waits);
                    }
                }
            }
            println!("{:?}", schedule_checker::check(&logs, &s.schedule));
            println!("{:?}", Replay::new(&program, &recording, &s.schedule).run(1));
        }
        Err(e) => println!("{e}"),
    }
}
