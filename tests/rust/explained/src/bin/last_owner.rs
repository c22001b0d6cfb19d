//! Who finds that it is the only owner of an `Arc` unwraps it later, when it is no longer the only one.
use std::sync::Arc;
use std::sync::Weak;
use std::thread;
use std::time::Duration;

fn borrow_it(known: &Weak<String>) {
    thread::sleep(Duration::from_millis(40));
    let mine = known.upgrade();
    thread::sleep(Duration::from_millis(200));
    drop(mine);
}

fn take_it(report: Arc<String>) -> String {
    if Arc::strong_count(&report) == 1 {
        thread::sleep(Duration::from_millis(120));
        return Arc::try_unwrap(report).unwrap();
    }
    String::new()
}

fn main() {
    let report = Arc::new(String::from("all is well"));
    let known = Arc::downgrade(&report);
    let reader = thread::spawn(move || borrow_it(&known));
    println!("{}", take_it(report));
    reader.join().unwrap();
}
