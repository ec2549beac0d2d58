//! The ring under a model checker: every interleaving of both sides.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p e810-shared --release --lib`

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

use super::*;

type Memory = Arc<Vec<AtomicU64>>;

impl Words for Memory {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// Both sides of a ring with room for two frames of eight bytes.
fn sides() -> (Writer<Memory>, Reader<Memory>) {
    let memory: Memory = Arc::new((0..FRAMES + 4).map(|_| AtomicU64::new(0)).collect());
    (Writer::new(memory.clone()), Reader::new(memory))
}

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(3);
    }
    builder.check(test);
}

/// The frames are whole and in order, although the second lap writes over the first.
#[test]
fn frames_are_whole_and_in_order() {
    model(|| {
        let (mut writer, mut reader) = sides();
        let thread = thread::spawn(move || {
            for tag in 1..=3 {
                while writer.write(&[tag; 8]).is_err() {
                    thread::yield_now();
                }
                writer.publish();
            }
        });
        let mut copied: Copied = [0; size_of::<Copied>()];
        let mut next = 1;
        while next <= 3 {
            let each = |frame: &[u8]| {
                assert_eq!(frame, [next; 8]);
                next += 1;
                true
            };
            if reader.take(9, &mut copied, each) == Ok(0) {
                thread::yield_now();
            }
        }
        thread.join().unwrap();
    });
}

/// A reader that sleeps is woken, or has seen the frame before.
#[test]
fn no_frame_is_slept_over() {
    model(|| {
        let (mut writer, reader) = sides();
        let woken = Arc::new(AtomicBool::new(false));
        let wakes = woken.clone();
        let thread = thread::spawn(move || {
            for tag in 1..=2 {
                writer.write(&[tag; 1]).unwrap();
                if writer.publish() {
                    wakes.store(true, Ordering::SeqCst);
                }
            }
        });
        reader.begin_sleep();
        let has_seen = reader.has_frames();
        thread.join().unwrap();
        assert!(has_seen || woken.load(Ordering::SeqCst));
    });
}
