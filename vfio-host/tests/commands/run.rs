//! `e810 run` as a process, with a program that loads libibverbs by its name: which process gets
//! which functions.

use std::env;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where cargo puts the libraries that this package's tests depend on: beside the test.
fn libraries() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().map(Path::to_owned).unwrap()
}

/// The program, an example of this package. `cargo test` builds it, except with `--test`.
fn program() -> PathBuf {
    let folder = libraries();
    let path = folder.with_file_name("examples").join("devices");
    let missing = "run cargo test -p e810-host without --test, which builds examples";
    assert!(path.exists(), "no {}: {missing}", path.display());
    path
}

/// A user's folder, with nothing of other tests in it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("e810-run-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    /// `e810` with these words, of which `PROGRAM` stands for the program.
    pub(crate) fn e810(&self, words: &str) -> Command {
        let words = words.replace("PROGRAM", program().to_str().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_e810"));
        command.args(words.split_whitespace());
        command.env("XDG_RUNTIME_DIR", &self.0);
        for variable in ["E810_AT", "E810_DEVICE", "E810_VERBS", "E810_LOCKS"] {
            command.env_remove(variable);
        }
        command.env("E810_LIBRARIES", libraries());
        command
    }

    /// What the command says, and its exit code.
    #[track_caller]
    pub(crate) fn output(&self, words: &str) -> Said {
        Said::of(&mut self.e810(words))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a process said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<String>,
    pub(crate) complaints: Vec<String>,
}

impl Said {
    #[track_caller]
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let lines = |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        Self {
            code: output.status.code(),
            lines: lines(output.stdout),
            complaints: lines(output.stderr),
        }
    }
}

/// A program that has its devices until its input ends.
pub(crate) struct Holder {
    pub(crate) child: Child,
    pub(crate) line: String,
}

impl Holder {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        Self { child, line }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Names and GUIDs of a line, behind the number of the process.
fn devices(line: &str) -> Vec<&str> {
    line.split_whitespace().skip(1).collect()
}

/// Two functions of one wire.
const PAIR: &str = "--device sim:wire=lab,mac=02:00:00:00:01:00@10.8.1.1 \
    --device sim:wire=lab,mac=02:00:00:00:01:01@10.8.1.2";
const FIRST: &str = "e810_0=000000fffe000100";
const SECOND: &str = "e810_0=000000fffe000101";

#[test]
fn each_process_gets_a_function_and_its_end_frees_it() {
    let folder = Folder::new("each");
    let hold = format!("run {PAIR} -- PROGRAM hold");
    let list = format!("run {PAIR} -- PROGRAM list");
    let first = Holder::start(&mut folder.e810(&hold));
    let second = Holder::start(&mut folder.e810(&hold));
    assert_eq!(devices(&first.line), [FIRST]);
    assert_eq!(devices(&second.line), [SECOND]);

    let third = folder.output(&list);
    assert_eq!(devices(&third.lines[0]), [""; 0]);
    let [done, none] = &third.complaints[..] else {
        panic!("{:?}", third.complaints);
    };
    assert!(done.starts_with("e810 run: sim:wire=lab,mac="), "{done}");
    for (holder, mac) in [(&first, "01:00"), (&second, "01:01")] {
        let part = format!("{mac}: process {} (devices) has it", holder.child.id());
        assert!(
            none.starts_with("e810: none of the 2") && none.contains(&part),
            "{none}"
        );
    }

    first.kill();
    let third = folder.output(&list);
    assert_eq!(devices(&third.lines[0]), [FIRST]);
    second.kill();
    // Libraries and locks are there once, however many runs there were; files for programs as often
    // as processes have ended since the last run, and its own.
    let all = fs::read_dir(folder.0.join("e810")).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let (of_runs, others): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with("sys-"));
    assert_eq!(
        (of_runs.len(), others.len()),
        (2, 2),
        "{of_runs:?} {others:?}"
    );
}

#[test]
fn a_child_of_fork_has_a_function_of_its_own() {
    let folder = Folder::new("fork");
    let said = folder.output(&format!("run -q {PAIR} -- PROGRAM fork"));
    assert_eq!((said.code, said.complaints), (Some(0), vec![]));
    assert_eq!(devices(&said.lines[0]), [FIRST]);
    // The parent's device, opened by the child, and the child's own list.
    assert_eq!(said.lines[1], "000000fffe000101");
    assert_eq!(devices(&said.lines[2]), [SECOND]);
    // None is left: the child says so, and opens nothing.
    let one = "run -q --device sim:wire=one,mac=02:00:00:00:02:00 -- PROGRAM fork";
    let said = folder.output(one);
    assert_ne!(said.code, Some(0));
    let line = &said.complaints[0];
    assert!(
        line.contains("02:00:00:00:02:00: process ") && line.ends_with(" (devices) has it"),
        "{line}"
    );
}

#[test]
fn processes_of_a_shell_share_what_there_is() {
    let folder = Folder::new("shell");
    let script = "run --functions 3 -- sh -c";
    let two = format!(
        "{0} list & wait; {0} guid; exec {0} list",
        program().display()
    );
    let said = Said::of(folder.e810(script).arg(two));
    assert_eq!(said.code, Some(0));
    let [done] = &said.complaints[..] else {
        panic!("{:?}", said.complaints);
    };
    assert!(
        done.starts_with("e810 run: 3 simulated functions on the wire run-"),
        "{done}"
    );
    assert_eq!(said.lines.len(), 4);
    // The same before it was open and when it was.
    let [guid] = devices(&said.lines[1])[..] else {
        panic!("{:?}", said.lines);
    };
    assert_eq!(guid, format!("e810_0={}", said.lines[2]));
}

#[test]
fn all_functions_for_each_process() {
    let folder = Folder::new("all");
    let said = folder.output(&format!("run -q --all {PAIR} -- PROGRAM list"));
    let second = SECOND.replace("e810_0", "e810_1");
    assert_eq!(devices(&said.lines[0]), [FIRST, &second]);
    assert_eq!(said.complaints, [""; 0]);
}

#[test]
fn variables_for_a_shell() {
    let folder = Folder::new("variables");
    let said = folder.output(&format!("run --print-env {PAIR}"));
    let locks = folder.0.join("e810");
    assert_eq!(said.lines.len(), 3);
    assert_eq!(
        said.lines[0],
        "export E810_VERBS='sim:wire=lab,mac=02:00:00:00:01:00@10.8.1.1|sim:wire=lab,mac=02:00:00:00:01:01@10.8.1.2'"
    );
    assert_eq!(
        said.lines[1],
        format!("export E810_LOCKS='{}'", locks.display())
    );
    assert!(said.lines[2].starts_with("export LD_LIBRARY_PATH='"));
    // A shell that evaluates them runs programs as the command does.
    let script = format!(
        "unset XDG_RUNTIME_DIR; {}\n{} list",
        said.lines.join("\n"),
        program().display()
    );
    let shell = Said::of(Command::new("sh").arg("-c").arg(script));
    assert_eq!(devices(&shell.lines[0]), [FIRST]);
}

/// The library names the folder to programs that ask it, and has the entries of the device that the
/// process gets; with `--dev-infiniband` they are where the kernel would have them.
#[test]
fn a_program_finds_its_device_in_sysfs() {
    let folder = Folder::new("sysfs");
    let port = "class/infiniband/e810_0/ports/1";
    let gid = "0000:0000:0000:0000:0000:ffff:0a08:0101";
    let read = |root: &str| format!("cat {root}/{port}/gids/1 {root}/{port}/gid_attrs/types/1");
    let one = "run -q --device sim:wire=lab,mac=02:00:00:00:01:00@10.8.1.1";
    let mut command = folder.e810(&format!("{one} -- sh -c"));
    command.env_remove("SYSFS_PATH");
    let said = Said::of(command.arg(read("$SYSFS_PATH")));
    assert_eq!(said.lines, [gid, "RoCE v2"], "{:?}", said.complaints);

    // A folder that the user has named stays; that of the process before is gone by then.
    let mut command = folder.e810(&format!("{one} -- sh -c"));
    command.env("SYSFS_PATH", "/elsewhere");
    let said = Said::of(command.arg("echo $SYSFS_PATH; ls -d $XDG_RUNTIME_DIR/e810/sys-* | wc -l"));
    assert_eq!(said.lines, ["/elsewhere", "1"], "{:?}", said.complaints);

    let mut command = folder.e810(&format!("{one} --dev-infiniband -- sh -c"));
    let said = Said::of(command.arg(format!(
        "{}; readlink /dev/infiniband/uverbs0; ls -d /sys/class/net",
        read("/sys")
    )));
    match &said.complaints[..] {
        [] => assert_eq!(said.lines, [gid, "RoCE v2", "/dev/null", "/sys/class/net"]),
        // Where namespaces are forbidden.
        [line] => assert!(
            line.contains("--dev-infiniband: making a mount namespace: run as root"),
            "{line}"
        ),
        lines => panic!("{lines:?}"),
    }
}

/// The command ignores SIGXFSZ; its program does not.
#[test]
fn a_program_ends_by_its_limit_of_files() {
    let folder = Folder::new("limit");
    let mut command = folder.e810("run -q --device sim@10.8.1.1 -- sh -c");
    command.arg("ulimit -f 1; dd if=/dev/zero of=$XDG_RUNTIME_DIR/file bs=4096 count=1; echo $?");
    let said = Said::of(&mut command);
    let ended_by = 128 + libc::SIGXFSZ;
    assert_eq!(said.lines, [ended_by.to_string()], "{:?}", said.complaints);
}

#[test]
fn what_cannot_run_is_one_line() {
    let folder = Folder::new("refused");
    let nowhere = folder.0.join("nowhere");
    for (words, code, part) in [
        ("run --device eth0 -- PROGRAM", 2, "`eth0` names no device"),
        (
            "run --dvice sim -- PROGRAM",
            2,
            "unexpected argument '--dvice'",
        ),
        ("run --device at:/a -- PROGRAM", 2, "e810 run --at /a"),
        (
            "run --device sim:wire=lab@10.8.1.1 --device sim:wire=lab@10.8.1.2 -- PROGRAM",
            2,
            "nobody the next --device",
        ),
        (
            "run -- no-such-program -x",
            127,
            "e810: no-such-program: no such program",
        ),
        ("run -- /etc/passwd", 126, "e810: /etc/passwd: "),
        (
            &format!("run --libraries {} -- PROGRAM", nowhere.display()),
            1,
            "cargo build -p e810-verbs-so",
        ),
    ] {
        let said = folder.output(words);
        assert_eq!(said.code, Some(code), "{words}");
        // Long lines wrap.
        let complaint = said.complaints.join(" ");
        assert!(complaint.contains(part), "{words}: {complaint}");
        assert_eq!(said.lines, [""; 0]);
    }
    // A copy that would be another user's: only root can give files away.
    let program = folder.0.join("program");
    fs::copy(self::program(), &program).unwrap();
    if std::os::unix::fs::chown(&program, Some(1), None).is_ok() {
        fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
        let said = folder.output(&format!("run -- {}", program.display()));
        assert_eq!(said.code, Some(2));
        assert!(
            said.complaints[0].contains("it is set-uid"),
            "{:?}",
            said.complaints
        );
    }
}
