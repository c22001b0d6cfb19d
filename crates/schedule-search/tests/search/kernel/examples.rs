//! Programs that need something in particular.
use super::program::Program;
use super::record::Recording;
use super::record::record_in_order;

/// Workers that count requests. In every round two of them count before either looks at the number, who by turns; a replay that lets one
/// of them go on to look fails each time. Synchronisations that have nothing to do with it come after.
pub fn server(rounds: usize) -> (Program, Recording) {
    let text = format!(
        "shared n, m
        thread main
        spawn worker
        spawn worker
        spawn worker
        thread worker
        i := 0
        while i < {rounds}
        acquire L
        n := n + 1
        release L
        t := n % 2
        acquire M
        m := m + 1
        release M
        acquire M
        m := m + 1
        release M
        if t == 0
        write 1
        end
        if t == 1
        write 2
        end
        i := i + 1
        end"
    );
    let program = Program::parse(&text);
    let mut order = vec![(0, 0), (1, 9), (2, 9), (3, 9)];
    for round in 0..rounds {
        let (one, two, three) = (1 + round % 3, 1 + (round + 1) % 3, 1 + (round + 2) % 3);
        // The third counts when both have looked, and once more counts who is first, for an even number next time.
        order.extend([(one, 12), (two, 12), (one, 9), (two, 9), (three, 9)]);
    }
    (program.clone(), record_in_order(&program, &order))
}

/// Needs two preemptions: neither gets the replay any further alone.
pub fn needs_two(independent: usize) -> (Program, Recording) {
    let rest = "acquire M\ny := y + 1\nrelease M\n".repeat(independent);
    let text = format!(
        "shared x, y, z
        thread main
        spawn a
        spawn b
        thread a
        acquire L
        x := x + 1
        release L
        acquire L
        x := x * 2
        release L
        write x
        {rest}
        thread b
        acquire L
        x := x + 10
        release L
        acquire L
        x := x * 3
        release L
        z := 1
        write 0"
    );
    let program = Program::parse(&text);
    let b = 15 + 3 * independent as u64;
    let order = [(0, 0), (1, 9), (2, b + 3), (1, 12), (2, b + 6), (1, 0), (2, 0)];
    (program.clone(), record_in_order(&program, &order))
}

/// What fails was decided before the failing thread's last event: in the window before.
pub fn needs_preceding_window() -> (Program, Recording) {
    let text = "shared x
        thread main
        spawn a
        spawn b
        thread a
        acquire L
        t := x
        release L
        write 1
        write t
        thread b
        acquire L
        x := 5
        release L
        write 9";
    let program = Program::parse(text);
    let order = [(0, 0), (2, 15), (1, 0), (2, 0)];
    (program.clone(), record_in_order(&program, &order))
}

/// Two threads lose an update of each other in every round, with no synchronisation anywhere.
pub fn lost_updates(rounds: usize) -> (Program, Recording) {
    let text = format!(
        "shared n
        thread main
        spawn worker
        spawn worker
        thread worker
        i := 0
        while i < {rounds}
        t := n
        n := t + 1
        write t
        i := i + 1
        end"
    );
    let program = Program::parse(&text);
    let mut order = vec![(0, 0), (1, 8), (2, 8)];
    for _ in 0..rounds {
        order.extend([(1, 9), (2, 9), (1, 10), (2, 10), (1, 8), (2, 8)]);
    }
    (program.clone(), record_in_order(&program, &order))
}

/// Two threads count without a lock, and what one of them counts in its first rounds is lost. It shows in the end.
pub fn lost_in_the_end(rounds: usize, lost: usize) -> (Program, Recording) {
    let worker = |by: u64| {
        format!(
            "i := 0
            while i < {rounds}
            t := n
            n := t + {by}
            i := i + 1
            end
            acquire L
            d := d + 1
            u := d
            release L
            if u == 2
            v := n
            write v
            end"
        )
    };
    let text = format!(
        "shared n, d
        thread main
        spawn a
        spawn b
        thread a
        {}
        thread b
        {}",
        worker(3),
        worker(5)
    );
    let program = Program::parse(&text);
    // The first one stands between looking and writing, in the middle of its rounds, while the other one counts.
    let mut order = vec![(0, 0)];
    order.extend((0..rounds / 2).map(|_| (1, 9)));
    order.extend((0..=lost).map(|_| (2, 23)));
    order.push((1, 0));
    (program.clone(), record_in_order(&program, &order))
}
