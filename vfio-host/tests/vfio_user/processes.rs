//! Processes of the command, each with a limit.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use std::sync::LazyLock;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e810_sim::{Builder, Mode, Sim};
use e810_sim_server::report::ServerReport;
use e810_sim_server::{Server, VECTORS};
use serde_json::Value;
use vmm_sys_util::tempdir::TempDir;

use super::watchdog::alive;

/// Far above what anything here takes, and above every limit of the command.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// A folder of its own.
pub(crate) fn folder() -> TempDir {
    alive();
    TempDir::new_with_prefix(std::env::temp_dir().join("e810-")).unwrap()
}

/// Waits until `ready` answers.
pub(crate) fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ready() {
            return answer;
        }
        assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A running `e810`, killed with this.
#[derive(Debug)]
pub(crate) struct E810(pub(crate) Child);

/// What one said, and how it ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A thread that reads what comes from `pipe` to its end.
fn reading(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}

impl E810 {
    pub(crate) fn start<S: AsRef<std::ffi::OsStr> + Debug>(arguments: &[S]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// With these environment variables.
    pub(crate) fn start_with<S: AsRef<std::ffi::OsStr> + Debug>(
        arguments: &[S],
        environment: &[(&str, &str)],
    ) -> Self {
        alive();
        let child = Command::new(env!("CARGO_BIN_EXE_e810"))
            .args(arguments)
            .env_remove("RUST_LOG")
            .env_remove("E810_DEVICE")
            .env_remove("E810_DDP")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    pub(crate) fn end(mut self) -> End {
        // One that prints more than a pipe holds does not end before somebody reads.
        let out = self.0.stdout.take().map(reading);
        let err = self.0.stderr.take().map(reading);
        let status = until("the end of e810", || self.0.try_wait().unwrap());
        alive();
        let text = |reader: Option<JoinHandle<String>>| {
            reader.map_or(String::new(), |reader| reader.join().unwrap())
        };
        let (out, err) = (text(out), text(err));
        End { status, out, err }
    }

    pub(crate) fn signal(&self, signal: i32) {
        let id = i32::try_from(self.0.id()).unwrap();
        // SAFETY: a child of this process that was not waited for.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
    }
}

impl Drop for E810 {
    fn drop(&mut self) {
        // It has ended, unless a test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl End {
    /// The JSON of a command that went well.
    pub(crate) fn json(&self) -> Value {
        assert!(self.status.success(), "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }

    /// The one line of a command that did not.
    pub(crate) fn failure(&self) -> String {
        self.line(1)
    }

    /// The one line of a command that was not understood.
    pub(crate) fn refusal(&self) -> String {
        self.line(2)
    }

    /// What it said when it ended with `code`: text, or JSON if that was asked for.
    fn line(&self, code: i32) -> String {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        let is_partial = |report: Value| report["ended"] == "failed";
        assert!(
            self.out.is_empty() || serde_json::from_str(&self.out).is_ok_and(is_partial),
            "{self:?}"
        );
        let text = self.err.strip_suffix('\n').unwrap();
        let (warnings, line) = text.rsplit_once('\n').unwrap_or(("", text));
        // Two functions of one card that are shut down at once may wait for each
        // other, and then say so.
        let is_warning = |line: &str| line.starts_with("e810: warning: ") && line.contains("busy");
        assert!(
            warnings.lines().all(is_warning),
            "more than a line:\n{text}"
        );
        if let Ok(json) = serde_json::from_str::<Value>(line) {
            assert_eq!(json["exit_code"], code, "{json}");
            return json["error"].as_str().unwrap().to_owned();
        }
        line.strip_prefix("e810: ").unwrap().to_owned()
    }
}

/// A package for the simulated firmware, as a file.
pub(crate) fn package() -> &'static Path {
    static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let own = folder.join(format!("package-{}", std::process::id()));
        std::fs::write(&own, e810_sim::test_package()).unwrap();
        // Other processes may do the same: a reader finds it whole.
        let file = folder.join("simulated.pkg");
        std::fs::rename(own, &file).unwrap();
        file
    });
    &FILE
}

/// `e810 pingpong` between two sockets.
pub(crate) fn pingpong(a: &Path, b: &Path, op: &str, iters: u32, size: u32) -> E810 {
    E810::start(&[
        "pingpong".to_owned(),
        format!("--device=vfio-user:{}", a.display()),
        format!("--peer=vfio-user:{}", b.display()),
        format!("--op={op}"),
        format!("--iters={iters}"),
        format!("--size={size}"),
        format!("--ddp={}", package().display()),
        "--json".to_owned(),
    ])
}

/// Runs a ping-pong and checks that every message was right.
pub(crate) fn all_verified(a: &Path, b: &Path, op: &str, iters: u32, size: u32) -> Value {
    let report = pingpong(a, b, op, iters, size).end().json();
    assert_eq!(report["verified"], iters);
    assert_eq!(
        (&report["errors"], &report["transport"]),
        (&0.into(), &"vfio-user".into())
    );
    report
}

/// Two functions served by another process.
pub(crate) struct ServerProcess {
    pub(crate) e810: E810,
    pub(crate) paths: [PathBuf; 2],
    pub(crate) report: PathBuf,
    // Last: it is removed when the process is gone.
    pub(crate) folder: TempDir,
}

impl ServerProcess {
    pub(crate) fn start() -> Self {
        let folder = folder();
        let paths = [folder.as_path().join("a"), folder.as_path().join("b")];
        let report = folder.as_path().join("report.json");
        let mut e810 = E810::start(&[
            "sim".as_ref(),
            "--socket".as_ref(),
            paths[0].as_os_str(),
            "--socket".as_ref(),
            paths[1].as_os_str(),
            "--report".as_ref(),
            report.as_os_str(),
            "--profile".as_ref(),
            "small".as_ref(),
        ]);
        let mut lines = BufReader::new(e810.0.stdout.take().unwrap());
        for path in &paths {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert!(line.contains(path.to_str().unwrap()), "{line}");
        }
        e810.0.stdout = Some(lines.into_inner());
        Self {
            e810,
            paths,
            report,
            folder,
        }
    }

    /// Its report so far: it goes on.
    pub(crate) fn report(&self) -> Value {
        self.e810.signal(libc::SIGUSR1);
        until("the report", || {
            let text = std::fs::read_to_string(&self.report).ok()?;
            serde_json::from_str(&text).ok()
        })
    }

    /// Stops it with `signal`; answers with its end and its report.
    pub(crate) fn stop(self, signal: i32) -> (End, Value) {
        self.e810.signal(signal);
        let Self {
            e810,
            paths,
            report,
            folder,
        } = self;
        let end = e810.end();
        let text = std::fs::read_to_string(report).unwrap();
        for path in paths {
            assert!(!path.exists(), "the socket was left behind");
        }
        drop(folder);
        (end, serde_json::from_str(&text).unwrap())
    }
}

/// Two functions served by this process.
pub(crate) struct Served {
    pub(crate) sim: Sim,
    pub(crate) paths: [PathBuf; 2],
    server: Server,
    pub(crate) folder: TempDir,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::start_with(Sim::builder().vectors(VECTORS).cold())
    }

    /// Two functions of such a card.
    pub(crate) fn start_with(builder: Builder) -> Self {
        let folder = folder();
        let paths = [folder.as_path().join("a"), folder.as_path().join("b")];
        let sim = builder.functions(2).mode(Mode::Real).build();
        let server = Server::start(sim.clone(), &paths).unwrap();
        Self {
            sim,
            paths,
            server,
            folder,
        }
    }

    pub(crate) fn report(&self) -> ServerReport {
        self.server.report()
    }

    /// Waits until `users` users have left a function.
    pub(crate) fn left(&self, function: usize, users: u64) -> ServerReport {
        until("users to leave", || {
            let report = self.report();
            let all = report.functions[function].users == users;
            all.then_some(report)
        })
    }
}
