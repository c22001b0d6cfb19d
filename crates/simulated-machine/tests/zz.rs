use constraint_solver::*; use run_model::*; use std::time::Instant;
#[test] fn zz() {
  for n in [100_000u64, 1_000_000] {
    let mut r = 12345u64; let mut next = move |b: u64| { r ^= r << 13; r ^= r >> 7; r ^= r << 17; r % b };
    let k = 8; let mut counts = vec![0u64; k]; let mut recs: Vec<Vec<Record>> = vec![vec![]; k];
    let cells = 1000; let mut last: Vec<Option<(u32,u64,bool)>> = vec![None; cells];
    for _ in 0..n {
      let t = next(k as u64) as usize; let c = next(cells as u64) as usize; let w = next(3) == 0;
      if let Some((s,kk,wr)) = last[c] { if s != t as u32 {
        recs[t].push(Record{ event: counts[t], kind: Kind::Run, access: Access(if w {2} else {1} | if wr {4} else {0}), object: 0x1000 + c as u64*8, sources: vec![Point{thread: ThreadIndex(s), count: kk}], ..Default::default() });
      } }
      let went = matches!(last[c], Some((s,_,true)) if s == t as u32);
      counts[t] += 1; last[c] = Some((t as u32, counts[t], w || went));
    }
    let logs = Logs { threads: recs.into_iter().zip(counts).map(|(records, events)| ThreadLog{records, events, torn: false}).collect() };
    let i = Instant::now(); let s = solve(&logs, Hints::Use).unwrap(); println!("{n} solve {:?} {:?}", i.elapsed(), s.stats);
    let i = Instant::now(); println!("{:?}", schedule_checker::check(&logs, &s.schedule)); println!("check {:?}", i.elapsed());
    if n <= 100_000 { let i = Instant::now(); let s = solve(&logs, Hints::Ignore).unwrap(); println!("{n} nohint {:?} {:?}", i.elapsed(), s.stats); }
  }
}
