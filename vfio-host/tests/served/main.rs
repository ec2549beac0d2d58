//! A function that another process serves, and its programs: processes that are killed at any
//! point, and a server that is.
//!
//! * `server`, the processes; `words`, what they share;
//! * `pair`, two programs that live long and compare what they get;
//! * `victim`, a program that does everything until it is killed, and `kills`, which kills it;
//! * `many`, many programs with many queue pairs;
//! * `orphans`, programs whose server is killed;
//! * `restarts`, servers that come and go;
//! * `hostile`, a program that does what none should.

// UNSAFETY: calls the verbs library as C does.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../../../verbs/tests/programs/harness/mod.rs"]
#[expect(dead_code, reason = "these tests need a part of what a program has")]
mod harness;
mod hostile;
mod kills;
mod many;
mod orphans;
mod pair;
mod restarts;
mod server;
mod victim;
mod words;

/// The other processes of a test are this test again.
#[test]
fn a_part_of_another_test() {
    let Ok(part) = std::env::var(server::PART) else {
        return;
    };
    match part.as_str() {
        "first of a pair" => pair::run(0),
        "second of a pair" => pair::run(1),
        "victim" => victim::run(),
        "many" => many::has_many(),
        "counts" => victim::counts_what_is_left(),
        "idles" => orphans::idles(),
        "sleeps" => orphans::sleeps(),
        "polls" => orphans::polls(),
        "forks" => orphans::forks(),
        "commands" => orphans::commands(),
        "visits" => restarts::visits(),
        "scribbles" => hostile::scribbles(),
        other => panic!("{other}"),
    }
    // SAFETY: it does not return.
    unsafe { libc::exit(server::DONE) }
}
