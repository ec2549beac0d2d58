//! `e810 serve` as a process, and programs on it, which are this test again with a part to play.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use vmm_sys_util::tempdir::TempDir;

use crate::harness::until;
use crate::words::{FILE, Words};

/// The variable with the part of a process.
pub(crate) const PART: &str = "E810_PART";
/// The variable with a number that makes it differ from others of the part.
pub(crate) const SEED: &str = "E810_TEST_SEED";
/// What a process ends with that has played its part.
pub(crate) const DONE: i32 = 42;

/// A folder with a socket, and words that its processes share.
pub(crate) struct World {
    folder: TempDir,
    pub(crate) words: Words,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new_with_prefix(env::temp_dir().join("e810-served-")).unwrap();
        let words = Words::create(&folder.as_path().join("words"));
        Self { folder, words }
    }

    pub(crate) fn at(&self) -> PathBuf {
        self.folder.as_path().join("at")
    }

    /// A process that plays a part.
    pub(crate) fn part(&self, part: &str, seed: u64) -> Process {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "a_part_of_another_test", "--nocapture"]);
        command.env(PART, part).env(SEED, seed.to_string());
        command.env("E810_VERBS", format!("at:{}", self.at().display()));
        command.env("E810_VERBS_PANICS", "1");
        command.env(FILE, self.folder.as_path().join("words"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // Nobody reads it meanwhile, and a pipe would be full once.
        let said = self.folder.as_path().join(format!("said-{part}-{seed}"));
        let child = command.stderr(File::create(&said).unwrap()).spawn();
        Process {
            child: child.unwrap(),
            name: part.to_owned(),
            said: Some(said),
        }
    }

    /// A command that owns a function, which may fail.
    pub(crate) fn serve(&self, options: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_e810"));
        command.args(["serve", "--device", "sim@10.8.1.1/24", "--at"]);
        command.arg(self.at()).args(options).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The same, when it serves.
    #[track_caller]
    pub(crate) fn server(&self) -> Server {
        self.server_with(&[])
    }

    #[track_caller]
    pub(crate) fn server_with(&self, options: &[&str]) -> Server {
        let mut child = self.serve(options);
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let mut process = Process {
            child,
            name: "serve".to_owned(),
            said: None,
        };
        if !line.starts_with("serving") {
            process.kill();
            panic!("{line}{}", process.complaints());
        }
        Server(process)
    }
}

/// A process that is killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    name: String,
    /// The file that it writes to instead of standard error.
    said: Option<PathBuf>,
}

impl Process {
    pub(crate) fn pid(&self) -> libc::pid_t {
        self.child.id().cast_signed()
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Its end, for which nobody does anything.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut status = None;
        until(&self.name.clone(), || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// It ends by itself, well.
    #[track_caller]
    pub(crate) fn done(mut self) {
        let status = self.end();
        let complaints = self.complaints();
        assert_eq!(
            status.code(),
            Some(DONE),
            "{}: {status}: {complaints}",
            self.name
        );
    }

    /// Kills it; it must not have ended before.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        let status = self.child.wait().unwrap();
        let is_killed = status.signal() == Some(libc::SIGKILL);
        if !is_killed {
            panic!("{}: {status}: {}", self.name.clone(), self.complaints());
        }
    }

    /// What it has written on standard error, once it and its children are gone.
    pub(crate) fn complaints(&mut self) -> String {
        let mut text = String::new();
        if let Some(said) = &self.said {
            text = fs::read_to_string(said).unwrap_or_default();
        }
        if let Some(mut pipe) = self.child.stderr.take() {
            let _ = pipe.read_to_string(&mut text);
        }
        text
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a server has of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Has {
    pub(crate) descriptors: usize,
    /// Files of programs that it has mapped.
    pub(crate) files: usize,
    pub(crate) threads: usize,
}

pub(crate) struct Server(pub(crate) Process);

impl Server {
    pub(crate) fn has(&self) -> Has {
        let pid = self.0.pid();
        let entries = |name: &str| {
            let all = fs::read_dir(format!("/proc/{pid}/{name}"));
            all.unwrap().count()
        };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        Has {
            descriptors: entries("fd"),
            files: maps
                .lines()
                .filter(|line| line.contains("memfd:e810"))
                .count(),
            threads: entries("task"),
        }
    }

    /// Stops it, which it does well only without findings of the simulator.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.0.signal(libc::SIGTERM);
        let status = self.0.end();
        let complaints = self.0.complaints();
        assert_eq!(status.code(), Some(0), "{complaints}");
    }
}
