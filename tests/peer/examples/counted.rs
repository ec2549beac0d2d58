//! The loop that `tests/peer/run callgrind` counts instructions in.
//!
//! `counted list` prints what there is to count; `counted ROW SIDE` runs whole
//! laps of it and prints the number of operations.

use e810_peer::Library;
use e810_peer::contest::{BATCH, Contestant, LibrarySide, OurSide, ROWS, VerbsSide, batch};

/// A whole number of laps of every ring.
const BATCHES: usize = 192;

fn run(row: usize, side: &mut dyn Contestant) -> bool {
    let Some(&(_, row)) = ROWS.get(row) else {
        return false;
    };
    (0..BATCHES).all(|_| batch(row, side, &mut |side, phase| phase(side, row)))
}

fn main() {
    let library = Library::load().and_then(|library| LibrarySide::new(&library));
    let library = match library {
        Ok(library) => library,
        Err(why) => return println!("{why}"),
    };
    let mut sides: [Box<dyn Contestant>; 4] = [
        Box::new(library),
        Box::new(OurSide::<false>::new()),
        Box::new(OurSide::<true>::new()),
        Box::new(VerbsSide::default()),
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [row, name] => {
            let side = sides.iter_mut().find(|side| side.name() == name);
            let row = row.parse().unwrap_or(usize::MAX);
            let good = side.is_some_and(|side| run(row, side.as_mut()));
            assert!(good, "there is such a row and side, and it works");
            println!("{}", BATCHES * BATCH);
        }
        _ => {
            for (at, (label, row)) in ROWS.iter().enumerate() {
                for side in &sides {
                    println!("{at}|{}|{}|{label}", side.name(), side.symbol(*row));
                }
            }
        }
    }
}
