use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;

use super::*;

/// Memory of a test, that two sides have.
type Memory = Arc<Vec<AtomicU64>>;

impl Words for Memory {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

fn memory(words: usize) -> Memory {
    Arc::new((0..FRAMES + words).map(|_| AtomicU64::new(0)).collect())
}

fn copied() -> Copied {
    [0xee; size_of::<Copied>()]
}

fn take(reader: &mut Reader<Memory>, most: usize) -> Result<Vec<Vec<u8>>, Broken> {
    let mut all = Vec::new();
    let taken = reader.take(most, &mut copied(), |frame| {
        all.push(frame.to_vec());
        true
    })?;
    assert_eq!(taken, all.len());
    Ok(all)
}

#[test]
fn who_sleeps_is_woken_once_and_a_frame_that_is_not_wanted_stays() {
    let memory = memory(64);
    let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
    assert!(!writer.publish(), "nothing was written");
    writer.write(&[1; 9]).unwrap();
    assert!(!reader.has_frames(), "not yet");
    assert!(
        !writer.publish() && reader.has_frames(),
        "it does not sleep"
    );
    reader.begin_sleep();
    assert!(!writer.publish(), "nothing more was written");
    writer.write(&[2; 16]).unwrap();
    assert!(writer.publish());
    writer.write(&[3; 1]).unwrap();
    assert!(!writer.publish(), "it is woken already");
    reader.begin_sleep();
    reader.end_sleep();
    writer.write(&[]).unwrap();
    assert!(!writer.publish());
    let refuse = |frame: &[u8]| frame[0] == 1;
    assert_eq!(reader.take(9, &mut copied(), refuse), Ok(1));
    assert_eq!(take(&mut reader, 2), Ok(vec![vec![2; 16], vec![3; 1]]));
    assert_eq!(take(&mut reader, 9), Ok(vec![vec![]]));
    assert!(!reader.has_frames());
}

#[test]
fn what_comes_after_the_end_is_not_taken() {
    let memory = memory(64);
    let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
    for (tag, ends) in [(1, true), (2, false)] {
        writer.write(&[tag; 60]).unwrap();
        writer.publish();
        if ends {
            reader.end();
        }
    }
    assert_eq!(take(&mut reader, 9), Ok(vec![vec![1; 60]]));
    assert!(!reader.has_frames());
}

#[test]
fn a_full_ring_takes_nothing_until_there_is_room() {
    let memory = memory(32);
    let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
    let frame = |tag: u8| vec![tag; 48];
    for tag in 0..4 {
        writer.write(&frame(tag)).unwrap();
    }
    assert_eq!(writer.write(&frame(4)), Err(Refused::Full));
    writer.write(&frame(5)[..24]).unwrap();
    assert_eq!(writer.write(&[]), Err(Refused::Full));
    writer.publish();
    assert_eq!(take(&mut reader, 1), Ok(vec![frame(0)]));
    writer.write(&frame(6)).unwrap();
    assert_eq!(writer.write(&[]), Err(Refused::Full));
    // As long as the ring, which no frame fits.
    assert_eq!(writer.write(&[0; 32 * WORD]), Err(Refused::Full));
}

#[test]
fn frames_pass_between_threads_in_order() {
    const COUNT: u32 = if cfg!(miri) { 100 } else { 20_000 };
    let memory = memory(256);
    let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
    let content = |number: u32| {
        let length = 4 + number as usize % 300;
        let mut frame = vec![number as u8; length];
        frame[..4].copy_from_slice(&number.to_le_bytes());
        frame
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                while writer.write(&content(number)) == Err(Refused::Full) {
                    thread::yield_now();
                }
                writer.publish();
            }
        });
        let mut next = 0;
        while next < COUNT {
            let each = |frame: &[u8]| {
                assert_eq!(frame, content(next));
                next += 1;
                true
            };
            if reader.take(64, &mut copied(), each) == Ok(0) {
                thread::yield_now();
            }
        }
    });
}

/// What a hostile side does to the memory.
#[derive(Clone, Debug)]
enum Step {
    /// Writes a word: that of the head, the tail or the flag, or one of a frame.
    Scribble(usize, u64),
    Write(usize),
    Publish,
    Take(usize),
    Sleep,
}

fn a_step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        any::<u64>(),
        0..200_u64,
        (0..200_u64).prop_map(u64::wrapping_neg),
        Just(LONGEST as u64 + 1),
    ];
    prop_oneof![
        (0..FRAMES + 128, value.clone()).prop_map(|(at, value)| Step::Scribble(at, value)),
        (prop_oneof![Just(HEAD), Just(TAIL), Just(FRAMES)], value)
            .prop_map(|(at, value)| Step::Scribble(at, value)),
        (0..LONGEST).prop_map(Step::Write),
        (0..400_usize).prop_map(Step::Write),
        Just(Step::Publish),
        (0..5_usize).prop_map(Step::Take),
        Just(Step::Sleep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 512 }))]

    /// Any sequence of frames comes out as it went in.
    #[test]
    fn frames_come_out_as_they_went_in(lengths in prop::collection::vec(0..900_usize, 1..200), most in 1..9_usize) {
        let memory = memory(256);
        let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
        let mut there = VecDeque::new();
        for (number, length) in lengths.into_iter().enumerate() {
            let frame = vec![number as u8; length];
            while writer.write(&frame) == Err(Refused::Full) {
                writer.publish();
                for taken in take(&mut reader, most).unwrap() {
                    prop_assert_eq!(Some(taken), there.pop_front());
                }
            }
            there.push_back(frame);
        }
        writer.publish();
        let rest = take(&mut reader, usize::MAX).unwrap();
        prop_assert_eq!(rest, Vec::from(there));
    }

    /// Whatever is in the memory, both sides stay in it, hand on nothing that is longer than a frame,
    /// end, and say when the other one is broken.
    #[test]
    fn nothing_that_the_other_side_writes_does_harm(steps in prop::collection::vec(a_step(), 1..200)) {
        let memory = memory(128);
        let words = memory.clone();
        let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
        for step in steps {
            match step {
                Step::Scribble(at, value) => words[at].store(value, Ordering::Relaxed),
                Step::Write(length) => {
                    let _ = writer.write(&vec![7; length]);
                    let used = writer.head.wrapping_sub(writer.tail);
                    prop_assert!(used <= writer.ring.capacity);
                }
                Step::Publish => drop(writer.publish()),
                Step::Take(most) => {
                    let before = reader.tail;
                    match take(&mut reader, most) {
                        Ok(frames) => {
                            prop_assert!(frames.len() <= most);
                            prop_assert!(frames.iter().all(|frame| frame.len() <= LONGEST));
                        }
                        // The ring is left then; a new one takes its place here.
                        Err(Broken) => reader.tail = words[HEAD].load(Ordering::Relaxed),
                    }
                    let read = reader.tail.wrapping_sub(before);
                    let head = words[HEAD].load(Ordering::Relaxed);
                    prop_assert!(read <= 128 || reader.tail == head);
                }
                Step::Sleep => reader.begin_sleep(),
            }
        }
    }
}
