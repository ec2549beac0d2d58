//! Calls and their answers.

use core::ffi::c_int;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::api::{Api, SYMBOLS};
use crate::cm;
use crate::draw::Draw;

/// How long a call may take.
const BOUND: Duration = Duration::from_secs(60);
/// Calls that a failure shows.
const SHOWN: usize = 40;

/// A function of either library.
pub trait Symbol: Copy {
    /// Its place in the counts: those of libibverbs first.
    fn place(self) -> usize;
}

impl Symbol for crate::api::Sym {
    fn place(self) -> usize {
        self as usize
    }
}

impl Symbol for cm::api::Sym {
    fn place(self) -> usize {
        SYMBOLS.len() + self as usize
    }
}

/// The name of the function with a place.
#[must_use]
pub fn name_of(place: usize) -> &'static str {
    match place.checked_sub(SYMBOLS.len()) {
        None => SYMBOLS[place],
        Some(place) => cm::api::SYMBOLS[place],
    }
}

/// The functions of both libraries.
#[derive(Clone, Copy, Debug)]
pub struct Apis {
    pub verbs: Api,
    pub cm: cm::api::Api,
}

impl Apis {
    /// Those of this program.
    #[must_use]
    pub fn linked() -> Self {
        Self {
            verbs: Api::linked(),
            cm: cm::api::Api::linked(),
        }
    }

    /// Those of a library in a file, which stays loaded.
    ///
    /// # Errors
    /// It cannot be loaded, or has not all names.
    pub fn loaded(path: &Path) -> Result<Self, String> {
        Ok(Self {
            verbs: Api::loaded(path)?,
            cm: cm::api::Api::loaded(path)?,
        })
    }
}

/// The call that a thread is in.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    /// Milliseconds at its begin, and one; 0 outside.
    since: AtomicU64,
    symbol: AtomicUsize,
    seed: u64,
}

/// Ends the process when a call takes too long.
fn guard(watch: Arc<Watch>) {
    let guard = thread::Builder::new().name("verbs-calls-watch".to_owned());
    let guard = guard.spawn(move || {
        while Arc::strong_count(&watch) > 1 {
            thread::sleep(Duration::from_millis(500));
            let since = watch.since.load(Ordering::Relaxed);
            let now = watch.began.elapsed().as_millis() as u64 + 1;
            if since > 0 && now.saturating_sub(since) > BOUND.as_millis() as u64 {
                let name = name_of(watch.symbol.load(Ordering::Relaxed));
                eprintln!("seed {}: {name} takes more than {BOUND:?}", watch.seed);
                std::process::abort();
            }
        }
    });
    guard.expect("a thread");
}

/// What was called and reached.
#[derive(Clone, Debug)]
pub struct Tally {
    pub calls: Vec<u64>,
    pub good: Vec<u64>,
    /// Changes of state: service, from, to.
    pub edges: BTreeSet<(c_int, c_int, c_int)>,
    /// Transfers whose bytes were compared: within a function, and between two.
    pub transfers: [u64; 2],
    /// Their bytes.
    pub bytes: u64,
    /// Events of connections: how many of each kind.
    pub events: BTreeMap<c_int, u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            calls: vec![0; SYMBOLS.len() + cm::api::SYMBOLS.len()],
            good: vec![0; SYMBOLS.len() + cm::api::SYMBOLS.len()],
            edges: BTreeSet::new(),
            transfers: [0; 2],
            bytes: 0,
            events: BTreeMap::new(),
        }
    }
}

/// Changes of state that a program can ask for; states have libibverbs' numbers.
pub const EDGES: &[(c_int, c_int)] = &[
    (0, 0),
    (0, 1),
    (1, 0),
    (1, 1),
    (1, 2),
    (1, 6),
    (2, 0),
    (2, 3),
    (2, 6),
    (3, 0),
    (3, 3),
    (3, 4),
    (3, 6),
    (4, 0),
    (4, 3),
    (4, 4),
    (4, 6),
    (6, 0),
    (6, 6),
];

/// Those of datagrams after a request that failed.
pub const EDGES_OF_UD: &[(c_int, c_int)] = &[(5, 0), (5, 6)];

/// Whether a program can ask for a change of state.
#[must_use]
pub fn is_edge(kind: c_int, edge: (c_int, c_int)) -> bool {
    EDGES.contains(&edge) || kind == 4 && EDGES_OF_UD.contains(&edge)
}

impl Tally {
    /// All calls.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// Those of librdmacm.
    #[must_use]
    pub fn of_cm(&self) -> u64 {
        self.calls[SYMBOLS.len()..].iter().sum()
    }

    /// Percent of them that did what they are for.
    #[must_use]
    pub fn share(&self) -> u64 {
        self.good.iter().sum::<u64>() * 100 / self.all().max(1)
    }

    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.calls.iter_mut().zip(&other.calls) {
            *sum += count;
        }
        for (sum, count) in self.good.iter_mut().zip(&other.good) {
            *sum += count;
        }
        self.edges.extend(&other.edges);
        self.transfers[0] += other.transfers[0];
        self.transfers[1] += other.transfers[1];
        self.bytes += other.bytes;
        for (kind, count) in &other.events {
            *self.events.entry(*kind).or_default() += count;
        }
    }

    /// What was not reached.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let calls = SYMBOLS.iter().zip(&self.calls);
        let never = calls.filter(|(_, calls)| **calls == 0);
        let mut missed: Vec<String> = never.map(|(name, _)| (*name).to_owned()).collect();
        for kind in [2, 4] {
            let edges = EDGES.iter().chain(EDGES_OF_UD).copied();
            let edges = edges.filter(|edge| is_edge(kind, *edge));
            let never = edges.filter(|(from, to)| !self.edges.contains(&(kind, *from, *to)));
            missed.extend(never.map(|(from, to)| format!("service {kind}: {from} to {to}")));
        }
        missed
    }
}

/// The calls of a thread.
#[derive(Debug)]
pub struct Run {
    /// libibverbs' functions.
    pub api: Api,
    /// librdmacm's.
    pub cm: cm::api::Api,
    /// Its choices.
    pub draw: Draw,
    /// What was reached.
    pub tally: Tally,
    /// What is printed with a failure, so that it can be called again.
    pub seed: u64,
    recent: VecDeque<String>,
    watch: Arc<Watch>,
}

impl Run {
    /// Begins one.
    #[must_use]
    pub fn new(apis: Apis, draw: Draw, seed: u64) -> Self {
        let watch = Arc::new(Watch {
            began: Instant::now(),
            since: AtomicU64::new(0),
            symbol: AtomicUsize::new(0),
            seed,
        });
        guard(watch.clone());
        Self {
            api: apis.verbs,
            cm: apis.cm,
            draw,
            tally: Tally::default(),
            seed,
            recent: VecDeque::new(),
            watch,
        }
    }

    /// A call begins.
    pub fn enter(&mut self, symbol: impl Symbol) {
        self.tally.calls[symbol.place()] += 1;
        self.watch.symbol.store(symbol.place(), Ordering::Relaxed);
        let now = self.watch.began.elapsed().as_millis() as u64 + 1;
        self.watch.since.store(now, Ordering::Relaxed);
        e810_verbs_names::refusals::set_errno(0);
    }

    /// It has returned.
    pub fn leave(&self) {
        self.watch.since.store(0, Ordering::Relaxed);
    }

    /// A call was made once more to wait for something: it does not count.
    pub fn again(&mut self, symbol: impl Symbol) {
        self.tally.calls[symbol.place()] -= 1;
    }

    fn note(&mut self, line: String) {
        if self.recent.len() == SHOWN {
            self.recent.pop_front();
        }
        self.recent.push_back(line);
    }

    /// More about the next call.
    pub fn about(&mut self, what: impl FnOnce() -> String) {
        self.note(format!("  {}", what()));
    }

    /// A call did what it is for.
    pub fn good(&mut self, symbol: impl Symbol) {
        self.tally.good[symbol.place()] += 1;
    }

    /// Ends the process if the answer is none that is allowed: 0, or the number of an error.
    pub fn judge(&mut self, symbol: impl Symbol, answer: c_int, allowed: &[c_int]) -> bool {
        let name = name_of(symbol.place());
        if answer == 0 {
            self.good(symbol);
        }
        self.note(format!("{name}: {answer}"));
        if !allowed.contains(&answer) {
            self.fail(&format!("{name} answers {answer}, not one of {allowed:?}"));
        }
        answer == 0
    }

    /// The same for a maker of objects.
    pub fn made<T>(&mut self, symbol: impl Symbol, object: *mut T, allowed: &[c_int]) -> bool {
        let answer = match object.is_null() {
            true => errno().max(1),
            false => 0,
        };
        self.judge(symbol, answer, allowed)
    }

    /// The same for a function that returns -1 with an error.
    pub fn minus(&mut self, symbol: impl Symbol, answer: c_int, allowed: &[c_int]) -> bool {
        let answer = match answer {
            -1 => errno().max(1),
            0 => 0,
            other => -other.abs() - 1000,
        };
        self.judge(symbol, answer, allowed)
    }

    /// Ends the process, with what led to it.
    pub fn fail(&self, what: &str) -> ! {
        let mut text = "the last calls:\n".to_owned();
        for line in &self.recent {
            let _ = writeln!(text, "  {line}");
        }
        eprintln!("{text}seed {}: {what}", self.seed);
        // Other threads may be in calls that will not return.
        std::process::exit(1);
    }
}

/// `errno`.
#[must_use]
pub fn errno() -> c_int {
    // SAFETY: the C library's own place of this thread.
    unsafe { *libc::__errno_location() }
}

/// Calls an exported function.
macro_rules! call {
    ($run:expr, $field:ident($($arg:expr),* $(,)?)) => {{
        let function = $run.api.$field;
        $run.enter($crate::api::Sym::$field);
        // SAFETY: objects are live, and what is written to is there.
        let result = unsafe { function($($arg),*) };
        $run.leave();
        result
    }};
}
pub(crate) use call;

/// Calls an exported function of librdmacm.
macro_rules! rdma {
    ($run:expr, $field:ident($($arg:expr),* $(,)?)) => {{
        let function = $run.cm.$field;
        $run.enter($crate::cm::api::Sym::$field);
        // SAFETY: objects are live, and what is written to is there.
        let result = unsafe { function($($arg),*) };
        $run.leave();
        result
    }};
}
pub(crate) use rdma;

/// Calls a function behind a pointer.
macro_rules! through {
    ($run:expr, $symbol:ident, $function:expr, ($($arg:expr),* $(,)?)) => {{
        // SAFETY: of a live object.
        let function = unsafe { $function }.expect(stringify!($symbol));
        $run.enter($crate::api::Sym::$symbol);
        // SAFETY: objects are live, and what is written to is there.
        let result = unsafe { function($($arg),*) };
        $run.leave();
        result
    }};
}
pub(crate) use through;
