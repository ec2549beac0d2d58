use super::*;
use std::vec::Vec;

const CQS: u32 = 40;

struct Table(Vec<AtomicU64>);

impl Table {
    fn new() -> Self {
        let words = QUEUES + CQS as usize;
        let table = Self((0..words).map(|_| AtomicU64::new(0)).collect());
        table.0[QUEUES - 1].store(CQS.into(), Ordering::Relaxed);
        table
    }

    fn allow(&self, cq: u32, ceq: u16, us: u32) {
        let ceq = CeqId::new(ceq).unwrap();
        set(&self.0, cq, wish(ceq, Itr::from_us(us).unwrap()));
        settle(&self.0, ceq);
    }

    fn leave(&self, cq: u32, ceq: u16) {
        set(&self.0, cq, 0);
        settle(&self.0, CeqId::new(ceq).unwrap());
    }

    fn waits(&self, ceq: u16) -> u32 {
        let word = vector(&self.0, CeqId::new(ceq).unwrap()).unwrap();
        itr(word.load(Ordering::Relaxed)).us()
    }
}

#[test]
fn the_most_impatient_decides() {
    let table = Table::new();
    table.allow(3, 0, 50);
    assert_eq!(table.waits(0), 50);
    table.allow(4, 0, 8);
    // Another vector's.
    table.allow(5, 1, 2);
    assert_eq!((table.waits(0), table.waits(1), table.waits(2)), (8, 2, 0));
    table.allow(4, 0, 8160);
    assert_eq!(table.waits(0), 50);
    table.allow(CQS - 1, 0, 0);
    assert_eq!(table.waits(0), 0);
    table.leave(CQS - 1, 0);
    table.leave(3, 0);
    assert_eq!(table.waits(0), 8160);
    table.leave(4, 0);
    assert_eq!((table.waits(0), table.waits(1)), (0, 2));
}

#[test]
fn what_is_not_there_is_never_checked() {
    let table = Table::new();
    // Behind the queues that were ever in use.
    table.0[QUEUES - 1].store(4, Ordering::Relaxed);
    table.allow(2, 0, 50);
    table.allow(4, 0, 8);
    assert_eq!(table.waits(0), 50);
    // Behind the words.
    table.allow(CQS, 0, 8);
    assert_eq!(table.waits(0), 50);
    let far = CeqId::new(MAX_CEQS as u16).unwrap();
    assert!(vector(&table.0, far).is_none());
    settle(&table.0, far);
    assert_eq!(table.0[QUEUES - 1].load(Ordering::Relaxed), 4);
}

/// Whatever the order, the last word is the least of what all allow.
#[test]
fn pollers_change_it_at_the_same_time() {
    let table = Table::new();
    let turns = if cfg!(miri) { 20 } else { 2_000 };
    for _ in 0..4 {
        std::thread::scope(|scope| {
            for cq in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for turn in 0..turns {
                        table.allow(cq, 0, (turn * 7 + cq * 10) % 400 * 2);
                    }
                    table.allow(cq, 0, 100 + cq * 10);
                });
            }
        });
        assert_eq!(table.waits(0), 100);
    }
}
