//! What all tests of a run together made of the files.
//!
//! Tests run in any order and several at once; each adds what it judged, and
//! [`check`] waits for the others, prints the totals, and complains about
//! cases that nobody took.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::report::{Side, directory};

/// Every file and the arrays in it: what [`check`] expects to have been
/// judged. `registers.json` is compared with the register table itself, by the
/// test `registers`.
const FILES: &[&str] = &[
    "cm_mads.json",
    "cq_arm.json",
    "cq_poll.json",
    "cq_resize.json",
    "cqp_bringup.json",
    "cqp_wqes.json",
    "encodings.json",
    "events.json",
    "kernel_cq_poll.json",
    "kernel_sq_wqes.json",
    "lan_queues.json",
    "qp_contexts.json",
    "rq_wqes.json",
    "sizing.json",
    "sq_sequences.json",
    "sq_wqes.json",
    "verbs_post.json",
];

/// Files that say something of the device as well. Not every element does, so
/// here only that the file was judged is looked at.
const DEVICE_FILES: &[&str] = &[
    "cq_poll.json",
    "kernel_sq_wqes.json",
    "rq_wqes.json",
    "sq_sequences.json",
    "sq_wqes.json",
    "verbs_post.json",
];

/// What is to be judged.
fn expected() -> impl Iterator<Item = (Side, &'static str)> {
    let driver = FILES.iter().map(|file| (Side::Driver, *file));
    driver.chain(DEVICE_FILES.iter().map(|file| (Side::Device, *file)))
}

/// A file of the vector directory that is judged by another test.
const ELSEWHERE: &str = "registers.json";

/// How the cases of a file, or of all, came out.
#[derive(Clone, Default)]
pub struct Counts {
    pub passed: usize,
    pub deviates: usize,
    pub skipped: usize,
    pub failed: usize,
}

impl Counts {
    pub fn run(&self) -> usize {
        self.passed + self.deviates + self.skipped + self.failed
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.deviates += other.deviates;
        self.skipped += other.skipped;
        self.failed += other.failed;
    }

    pub fn line(&self, side: Side, name: &str) -> String {
        let Self {
            passed,
            deviates,
            skipped,
            failed,
        } = self;
        let run = self.run();
        let name = format!("{}{name}", side.prefix());
        format!(
            "golden {name:<27} run {run:>4}  passed {passed:>4}  deviates on purpose {deviates:>3}  skipped {skipped:>3}  failed {failed:>3}\n"
        )
    }
}

/// What all parts together made of a file.
#[derive(Default)]
struct Judged {
    counts: Counts,
    /// Cases judged, by array and index.
    cases: BTreeSet<(String, usize)>,
    /// Cases there are, by array.
    sizes: BTreeMap<String, usize>,
    absent: bool,
}

#[derive(Default)]
struct Progress {
    started: usize,
    ended: usize,
    files: BTreeMap<(Side, &'static str), Judged>,
}

static PROGRESS: Mutex<Option<Progress>> = Mutex::new(None);

fn with_progress<T>(use_it: impl FnOnce(&mut Progress) -> T) -> T {
    let mut progress = PROGRESS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    use_it(progress.get_or_insert_default())
}

/// Ends the run of a part also when it panics.
pub struct Running;

impl Running {
    pub fn start() -> Self {
        with_progress(|progress| progress.started += 1);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        with_progress(|progress| progress.ended += 1);
    }
}

/// Fails unless `name` is one of the vector files.
pub fn expect(side: Side, name: &'static str) {
    assert!(
        expected().any(|file| file == (side, name)),
        "{name} is not in the list of vector files"
    );
}

/// Notes that a directory given by `E810_VECTORS` has no such file.
pub fn absent(side: Side, name: &'static str) {
    say(&format!(
        "golden {name:<27} not in {}\n",
        directory().display()
    ));
    with_progress(|progress| progress.files.entry((side, name)).or_default().absent = true);
}

/// Adds what one part made of a file: its counts, the sizes of the file's
/// arrays, and which of their elements it judged.
pub fn add(
    side: Side,
    name: &'static str,
    counts: &Counts,
    sizes: BTreeMap<String, usize>,
    cases: BTreeSet<(String, usize)>,
) {
    let twice = with_progress(|progress| {
        let judged = progress.files.entry((side, name)).or_default();
        judged.counts.add(counts);
        judged.sizes = sizes;
        cases
            .into_iter()
            .filter(|case| !judged.cases.insert(case.clone()))
            .collect::<Vec<_>>()
    });
    assert!(twice.is_empty(), "{name}: judged twice: {twice:?}");
}

/// Writes past the capture of test output, in one piece.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed pipe must not turn a judgement into a failure.
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Waits for the other tests of this run, prints the totals, and fails when a
/// file, or a case of one, was judged by nobody.
pub fn check() {
    // Tests start in the order of their names and this one is the last, so
    // whatever is to run has started or is about to.
    let grace = Instant::now() + Duration::from_secs(2);
    let limit = Instant::now() + Duration::from_secs(300);
    loop {
        let (running, missing) = with_progress(|progress| {
            (
                progress.started - progress.ended,
                expected().any(|file| !progress.files.contains_key(&file)),
            )
        });
        let now = Instant::now();
        if (running == 0 && (!missing || now > grace)) || now > limit {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }

    let mut complaints = Vec::new();
    let mut totals = [Counts::default(), Counts::default()];
    with_progress(|progress| {
        for (side, name) in expected() {
            let Some(judged) = progress.files.get(&(side, name)) else {
                complaints.push(format!(
                    "{}{name}: judged by no test of this run",
                    side.prefix()
                ));
                continue;
            };
            totals[side as usize].add(&judged.counts);
            if judged.absent {
                continue;
            }
            if judged.cases.len() != judged.counts.run() {
                complaints.push(format!(
                    "{}{name}: {} elements were judged, {} outcomes counted",
                    side.prefix(),
                    judged.cases.len(),
                    judged.counts.run()
                ));
            }
            for (array, size) in judged.sizes.iter().filter(|_| side == Side::Driver) {
                let left = (0..*size)
                    .filter(|index| !judged.cases.contains(&(array.clone(), *index)))
                    .count();
                if left > 0 {
                    complaints.push(format!(
                        "{name}: {left} of {size} elements of `{array}` judged by nobody"
                    ));
                }
            }
        }
    });
    for entry in std::fs::read_dir(directory()).into_iter().flatten() {
        let name = entry.map(|entry| entry.file_name().to_string_lossy().into_owned());
        if let Ok(name) = name
            && name.ends_with(".json")
            && name != ELSEWHERE
            && !FILES.contains(&name.as_str())
        {
            complaints.push(format!("{name}: a file that no test knows"));
        }
    }
    let [driver, device] = totals;
    if driver.run() == 0 {
        complaints.push(format!("{}: no case at all", directory().display()));
    }
    say(&format!(
        "{}{}golden vectors are those of {}\n",
        driver.line(Side::Driver, "in all"),
        device.line(Side::Device, "in all"),
        directory().display()
    ));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
