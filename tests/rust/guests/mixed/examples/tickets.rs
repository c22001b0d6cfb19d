fn main() {
    println!("{}", mixed::report());
}
