//! Small programs from a seed. What their threads give out depends on what they read.
use simulated_machine::Random;
use std::fmt::Write;

pub fn generate(seed: u64) -> String {
    let mut random = Random::new(seed ^ 0x005e_a2c4);
    let workers = 2 + random.below(2);
    let length = if workers == 2 { 5 } else { 3 };
    let mut text = String::from("shared x, y = 1, flag\nthread main\n");
    for worker in 0..workers {
        let _ = writeln!(text, "  spawn w{worker}");
    }
    if random.once_in(3) {
        text.push_str("  x := x + 1\n");
    }
    for worker in 0..workers {
        let _ = writeln!(text, "thread w{worker}");
        for _ in 0..2 + random.below(length) {
            statement(&mut text, &mut random, 0);
        }
        if random.once_in(4) {
            text.push_str("  t := x != 2\n  assert t\n");
        }
    }
    text
}

fn variable(random: &mut Random) -> &'static str {
    ["x", "y"][random.below(2) as usize]
}

fn statement(text: &mut String, random: &mut Random, depth: u64) {
    let name = variable(random);
    let number = random.below(3);
    let written = match random.below(if depth < 2 { 11 } else { 6 }) {
        0 | 1 => writeln!(text, "  {name} := {name} + 1"),
        2 => writeln!(text, "  {name} := {number}"),
        3 => writeln!(text, "  write {name}"),
        4 => writeln!(text, "  t := {name}\n  write t"),
        5 => writeln!(text, "  read v\n  {name} := v"),
        6 | 7 => {
            let lock = random.below(2);
            let _ = writeln!(text, "  acquire L{lock}");
            // Locks are not nested: a recording that gets stuck is none.
            for _ in 0..1 + random.below(2) {
                statement(text, random, 2);
            }
            writeln!(text, "  release L{lock}")
        }
        8 | 9 => {
            let _ = writeln!(text, "  if {name} == {number}");
            statement(text, random, depth + 1);
            writeln!(text, "  end")
        }
        _ => match random.below(3) {
            0 => writeln!(text, "  acquire L0\n  if flag == 0\n  wait C L0\n  end\n  release L0"),
            1 => writeln!(text, "  while flag == 0\n  end"),
            _ => writeln!(text, "  acquire L0\n  flag := 1\n  broadcast C\n  release L0"),
        },
    };
    let _ = written;
}
