//! What the compiler makes of the core, read from its release objects.
//!
//! * A register access on a real BAR0 is one `mov` (`examples/asm_probe.rs`).
//! * No panic path is left in the core: neither in the crates' own objects nor
//!   where their generic code is instantiated (`examples/core_probe.rs`,
//!   `examples/net_probe.rs`).
//!
//! Needs `objdump` and `nm`; without them, or (for the first) on another CPU
//! than x86_64, the tests say so and check nothing.

#![cfg(not(miri))]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The crates that may not panic.
const CORE: [&str; 7] = [
    "e810-hal",
    "e810-cqp",
    "e810-ceq",
    "e810-datapath",
    "e810-lan",
    "e810-net",
    "e810",
];

/// Words that mark the functions of the standard library that end in a panic.
const PANIC_WORDS: [&str; 3] = ["panic", "_fail", "handle_alloc_error"];

type Outcome<T = ()> = Result<T, String>;

fn run(command: &mut Command) -> Outcome<String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?}: {}\n{errors}", output.status))
    }
}

fn present(tool: &str) -> bool {
    let found = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        println!("skipped: {tool} is not installed");
    }
    found
}

/// A target directory of its own: the outer cargo holds the lock of the usual
/// one, and these builds stay cached between runs.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("release-objects")
}

/// Crate name as rustc knows it, and its release rlib.
type Rlib = (String, PathBuf);

fn core_rlibs() -> Outcome<&'static [Rlib]> {
    static BUILT: OnceLock<Outcome<Vec<Rlib>>> = OnceLock::new();
    BUILT
        .get_or_init(build_core)
        .as_deref()
        .map_err(Clone::clone)
}

fn build_core() -> Outcome<Vec<Rlib>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--offline", "--release", "--lib", "--quiet"])
        .args(["--message-format", "json", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"))
        .arg("--target-dir")
        .arg(target())
        // As bare metal is built. With unwinding, every call of a platform's
        // function has a landing pad, which is a panic path of the platform.
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        // A coverage or sanitizer run of the tests must not change what is judged.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    for package in CORE {
        cargo.args(["-p", package]);
    }
    let messages = run(&mut cargo)?;
    CORE.iter()
        .map(|package| {
            let name = package.replace('-', "_");
            rlib_of(&messages, &name)
                .map(|path| (name, path))
                .ok_or(format!("cargo built no rlib of {package}"))
        })
        .collect()
}

fn rlib_of(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message.pointer("/target/name").is_some_and(|n| n == name))
        .filter_map(|message| message.get("filenames").cloned())
        .filter_map(|names| serde_json::from_value::<Vec<PathBuf>>(names).ok())
        .flatten()
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "rlib")
        })
}

/// A file that no other test, and no other run at the same time, writes.
fn object(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    target().join(format!("{name}-{process}-{count}.o"))
}

/// Runs a compiler once for the same command and the same bytes of its inputs: the object is
/// kept, and is named by both. `command` gets the object's place.
fn compiled(
    name: &str,
    inputs: &[&Path],
    command: impl FnOnce(&Path) -> Command,
) -> Outcome<PathBuf> {
    let new = object(name);
    let mut rustc = command(&new);
    let mut hash = DefaultHasher::new();
    rustc_version()?.hash(&mut hash);
    let arguments = rustc.get_args().filter(|argument| *argument != new);
    arguments.for_each(|argument| argument.hash(&mut hash));
    for input in inputs {
        let bytes = fs::read(input).map_err(|error| format!("{}: {error}", input.display()))?;
        bytes.hash(&mut hash);
    }
    let kept = target().join(format!("{name}-{:016x}.o", hash.finish()));
    if !kept.exists() {
        run(&mut rustc)?;
        fs::rename(&new, &kept).map_err(|error| format!("{}: {error}", kept.display()))?;
    }
    Ok(kept)
}

/// Compiles one of the examples to an object, against the release rlibs.
fn probe(name: &str) -> Outcome<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
        .with_extension("rs");
    let rlibs = core_rlibs()?;
    let mut inputs: Vec<&Path> = rlibs.iter().map(|(_, path)| path.as_path()).collect();
    inputs.push(&source);
    compiled(name, &inputs, |object| {
        let dependencies = target().join("release/deps");
        let mut rustc = rustc(object);
        rustc
            .arg(&source)
            .arg("-L")
            .arg(format!("dependency={}", dependencies.display()));
        for (name, path) in rlibs {
            rustc
                .arg("--extern")
                .arg(format!("{name}={}", path.display()));
        }
        rustc
    })
}

/// The compiler and its version, in all its lines.
fn rustc_version() -> Outcome<String> {
    run(Command::new(rustc_path()).arg("-vV"))
}

fn rustc_path() -> PathBuf {
    Path::new(env!("CARGO")).with_file_name("rustc")
}

fn rustc(object: &Path) -> Command {
    let mut rustc = Command::new(rustc_path());
    rustc
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj"])
        .args(["-C", "opt-level=3", "-C", "codegen-units=1"])
        .args(["-C", "panic=abort", "-A", "dead_code"])
        .arg("-o")
        .arg(object);
    rustc
}

/// Undefined symbols of an object or rlib that lead to a panic.
fn panic_paths(object: &Path) -> Outcome<Vec<String>> {
    let symbols = run(Command::new("nm")
        .args(["--demangle", "--undefined-only"])
        .arg(object))?;
    Ok(symbols
        .lines()
        .filter_map(|line| line.trim().strip_prefix("U "))
        .filter(|symbol| {
            let std = ["core::", "alloc::", "std::", "rust_"];
            std.iter().any(|start| symbol.starts_with(start))
                && PANIC_WORDS.iter().any(|word| symbol.contains(word))
        })
        .map(str::to_owned)
        .collect())
}

/// The instructions of one function, up to and with its first `ret`.
fn instructions(listing: &str, function: &str) -> Outcome<Vec<String>> {
    let label = format!("<{function}>:");
    let mut body = Vec::new();
    for line in listing
        .lines()
        .skip_while(|line| !line.ends_with(&label))
        .skip(1)
    {
        let Some((_, instruction)) = line.split_once(":\t") else {
            break;
        };
        let words: Vec<&str> = instruction.split_whitespace().collect();
        let is_ret = words == ["ret"];
        body.push(words.join(" "));
        if is_ret {
            return Ok(body);
        }
    }
    Err(format!("{function}: no ret in {body:?}\n{listing}"))
}

/// Where the one memory operand of an access must be.
enum Side {
    Store,
    Load,
}

/// Demands one `mov` to or from `displacement`, and beside it only register
/// arithmetic: no branch, call, compare or second access.
fn is_one_mov(body: &[String], side: &Side, displacement: &str) -> Outcome {
    let (accesses, others): (Vec<&String>, Vec<&String>) = body
        .iter()
        .partition(|instruction| instruction.contains("PTR"));
    let [access] = accesses.as_slice() else {
        return Err(format!("{} accesses in {body:?}", accesses.len()));
    };
    let operand = format!("+{displacement}]");
    let placed = match side {
        Side::Store => {
            access.starts_with("mov DWORD PTR [") && access.contains(&format!("{operand},"))
        }
        Side::Load => access.starts_with("mov e") && access.ends_with(&operand),
    };
    if !placed {
        return Err(format!("{access} is not the access to {displacement}"));
    }
    let harmless = [
        "mov", "movzx", "and", "or", "add", "shl", "lea", "endbr64", "ret",
    ];
    match others
        .iter()
        .find(|instruction| !harmless.contains(&instruction.split(' ').next().unwrap_or("")))
    {
        Some(other) => Err(format!("{other} in {body:?}")),
        None => Ok(()),
    }
}

#[test]
fn a_register_access_is_one_mov() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the expected instructions are those of x86_64");
        return Ok(());
    }
    if !present("objdump") {
        return Ok(());
    }
    let listing = run(Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", "-M", "intel"])
        .arg(probe("asm_probe")?))?;
    let accesses = [
        ("probe_cqp_doorbell", Side::Store, "0x500800"),
        ("probe_cqp_doorbell_field", Side::Store, "0x500800"),
        ("probe_send_doorbell", Side::Store, "0x7f0000"),
        ("probe_enable_vector_5", Side::Store, "0x160014"),
        ("probe_enable_vector", Side::Store, "0x160000"),
        ("probe_bind_ceq", Side::Store, "0x15c000"),
        ("probe_set_interval", Side::Store, "0x154000"),
        ("probe_read_cqp_tail", Side::Load, "0x500880"),
    ];
    for (function, side, displacement) in accesses {
        let body = instructions(&listing, function)?;
        println!("{function}: {}", body.join("; "));
        is_one_mov(&body, &side, displacement).map_err(|error| format!("{function}: {error}"))?;
    }
    // Those without an index or a field are nothing else at all.
    for function in [
        "probe_cqp_doorbell",
        "probe_send_doorbell",
        "probe_enable_vector_5",
    ] {
        let body = instructions(&listing, function)?;
        if body.len() != 2 {
            return Err(format!("{function}: more than a mov and a ret: {body:?}"));
        }
    }
    Ok(())
}

#[test]
fn the_reader_of_listings_refuses_what_is_not_one_mov() -> Outcome {
    let body = |instructions: &[&str]| -> Vec<String> {
        instructions.iter().map(|&i| i.to_owned()).collect()
    };
    let store = "mov DWORD PTR [rdi+0x500800],esi";
    let judge = |instructions: &[&str]| is_one_mov(&body(instructions), &Side::Store, "0x500800");
    judge(&[store, "ret"])?;
    judge(&["and esi,0x7ff", store, "ret"])?;
    for wrong in [
        &["ret"][..],
        &[store, store, "ret"],
        &["mov DWORD PTR [rdi+0x500804],esi", "ret"],
        &["mov esi,DWORD PTR [rdi+0x500800]", "ret"],
        &["mov WORD PTR [rdi+0x500800],si", "ret"],
        &["cmp esi,0x7ff", "ja 1f", store, "ret"],
        &["call 0 <check>", store, "ret"],
        &["mfence", store, "ret"],
    ] {
        assert!(judge(wrong).is_err(), "{wrong:?}");
    }
    let listing = "0000 <f>:\n   0:\tmov    eax,0x1\n   5:\tret\n\n0000 <g>:\n   0:\tud2\n";
    assert_eq!(instructions(listing, "f")?, ["mov eax,0x1", "ret"]);
    assert!(instructions(listing, "g").is_err());
    assert!(instructions(listing, "h").is_err());
    Ok(())
}

#[test]
fn no_panic_path_is_left_in_the_core() -> Outcome {
    if !present("nm") {
        return Ok(());
    }
    let mut objects: Vec<PathBuf> = core_rlibs()?.iter().map(|(_, path)| path.clone()).collect();
    objects.push(probe("asm_probe")?);
    objects.push(probe("core_probe")?);
    objects.push(probe("net_probe")?);
    let mut found = Vec::new();
    for object in &objects {
        let name = object.file_name().unwrap_or_default().to_string_lossy();
        found.extend(
            panic_paths(object)?
                .iter()
                .map(|symbol| format!("{name}: {symbol}")),
        );
    }
    println!("{} objects, {} panic paths", objects.len(), found.len());
    if found.is_empty() {
        Ok(())
    } else {
        Err(found.join("\n"))
    }
}

#[test]
fn a_panic_path_would_be_seen() -> Outcome {
    if !present("nm") {
        return Ok(());
    }
    let sources = [
        "pub fn f(s: &[u8], i: usize) -> u8 { s[i] }",
        "pub fn f(s: &[u8], i: usize) -> &[u8] { &s[i..] }",
        "pub fn f(s: Option<u8>) -> u8 { s.unwrap() }",
        "pub fn f(s: Option<u8>) -> u8 { s.expect(\"some\") }",
        "pub fn f(a: u32, b: u32) -> u32 { a / b }",
        "pub fn f(a: &str, b: usize) -> &str { &a[b..] }",
    ];
    for source in sources {
        fs::create_dir_all(target()).map_err(|error| error.to_string())?;
        let object = object("panics");
        let mut child = rustc(&object)
            .args(["--crate-name", "panics", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        if let Some(mut stdin) = child.stdin.take() {
            let text = format!("#![no_std]\n#[unsafe(no_mangle)]\n{source}");
            stdin
                .write_all(text.as_bytes())
                .map_err(|error| error.to_string())?;
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        assert!(status.success(), "{source}");
        assert!(!panic_paths(&object)?.is_empty(), "{source}");
    }
    Ok(())
}
