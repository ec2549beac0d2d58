//! What the compiler makes of the core, read from its release objects.
//!
//! * A register access on a real BAR0, or on its doorbell page alone, is one `mov`
//!   (`examples/asm_probe.rs`).
//! * No panic path is left in the core: neither in the crates' own objects nor
//!   where their generic code is instantiated (`examples/core_probe.rs`,
//!   `examples/net_probe.rs`, `examples/connect_probe`).
//!
//! The tests need `objdump` and `nm`, and the first one needs x86_64. Without these, they say so
//! and check nothing.

#![cfg(not(miri))]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::Once;
use std::thread;

use e810_tests::sources::root;

use crate::CORE;

/// Words that mark the functions of the standard library that end in a panic.
const PANIC_WORDS: [&str; 3] = ["panic", "_fail", "handle_alloc_error"];

/// What a command prints.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("a command that is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert!(status.success(), "{command:?}: {status}\n{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_present(tool: &str) -> bool {
    let version = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    let is_present = version.is_ok_and(|status| status.success());
    if !is_present {
        println!("skipped: {tool} is not installed");
    }
    is_present
}

/// A target directory of its own: the outer cargo holds the lock of the usual
/// one, and these builds stay cached between runs.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("release-objects")
}

/// The crates of the core, as rustc names them, and their release rlibs.
fn core_rlibs() -> Vec<(String, PathBuf)> {
    static BUILT: Once = Once::new();
    let packages = CORE.map(|folder| match folder {
        "driver" => "e810".to_owned(),
        _ => format!("e810-{folder}"),
    });
    BUILT.call_once(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--offline", "--release", "--lib", "--quiet"])
            .arg("--manifest-path")
            .arg(root().join("Cargo.toml"))
            .arg("--target-dir")
            .arg(target())
            // As bare metal is built. With unwinding, every call of a platform's
            // function has a landing pad, which is a panic path of the platform.
            .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
            // A coverage or sanitizer run of the tests must not change what is judged.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        for package in &packages {
            cargo.args(["-p", package]);
        }
        run(&mut cargo);
    });
    let rlibs = packages.iter().map(|package| {
        let name = package.replace('-', "_");
        let rlib = target().join(format!("release/lib{name}.rlib"));
        (name, rlib)
    });
    rlibs.collect()
}

fn rustc() -> Command {
    let mut rustc = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"));
    rustc
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj"])
        .args(["-C", "opt-level=3", "-C", "codegen-units=1"])
        .args(["-C", "panic=abort", "-A", "dead_code"]);
    rustc
}

/// A file that no other test, and no other run at the same time, writes.
fn own_object(name: &str) -> PathBuf {
    let thread = thread::current().id();
    target().join(format!("{name}-{}-{thread:?}.o", process::id()))
}

/// Files of one of the examples, the first of which is compiled.
fn sources(name: &str) -> Vec<PathBuf> {
    let alone = format!("{name}.rs");
    let files: &[&str] = match name {
        "connect_probe" => &[
            "connect_probe/main.rs",
            "connect_probe/calls.rs",
            "core_probe.rs",
        ],
        _ => &[&alone],
    };
    let folder = root().join("tests/examples");
    files.iter().map(|file| folder.join(file)).collect()
}

/// Compiles one of the examples to an object, against the release rlibs. The object is kept, and
/// its name stands for the compiler, its arguments and the bytes that it reads.
fn probe(name: &str) -> PathBuf {
    let rlibs = core_rlibs();
    let sources = sources(name);
    let dependencies = target().join("release/deps");
    let mut compile = rustc();
    compile.args(sources.first()).arg("-L");
    compile.arg(format!("dependency={}", dependencies.display()));
    for (name, rlib) in &rlibs {
        compile.arg("--extern");
        compile.arg(format!("{name}={}", rlib.display()));
    }
    let mut hash = DefaultHasher::new();
    run(rustc().arg("-vV")).hash(&mut hash);
    format!("{compile:?}").hash(&mut hash);
    for input in rlibs.iter().map(|(_, rlib)| rlib).chain(&sources) {
        fs::read(input).expect("an input").hash(&mut hash);
    }
    let kept = target().join(format!("{name}-{:016x}.o", hash.finish()));
    if !kept.exists() {
        let new = own_object(name);
        run(compile.arg("-o").arg(&new));
        fs::rename(&new, &kept).expect("an object that is kept");
    }
    kept
}

/// Undefined symbols of an object or rlib that lead to a panic.
fn panic_paths(object: &Path) -> Vec<String> {
    let symbols = run(Command::new("nm")
        .args(["--demangle", "--undefined-only"])
        .arg(object));
    let symbols = symbols
        .lines()
        .filter_map(|line| line.trim().strip_prefix("U "));
    let panics = symbols.filter(|symbol| {
        let std = ["core::", "alloc::", "std::", "rust_"];
        std.iter().any(|start| symbol.starts_with(start))
            && PANIC_WORDS.iter().any(|word| symbol.contains(word))
    });
    panics.map(str::to_owned).collect()
}

/// The instructions of one function, up to and with its first `ret`.
fn instructions(listing: &str, function: &str) -> Option<Vec<String>> {
    let (_, behind) = listing.split_once(&format!("<{function}>:\n"))?;
    let mut body = Vec::new();
    for line in behind.lines() {
        let (_, instruction) = line.split_once(":\t")?;
        let words: Vec<&str> = instruction.split_whitespace().collect();
        body.push(words.join(" "));
        if words == ["ret"] {
            return Some(body);
        }
    }
    None
}

/// Where the one memory operand of an access must be.
enum Side {
    Store,
    Load,
}

/// Demands one `mov` to or from `displacement`, and beside it only register
/// arithmetic: no branch, call, compare or second access.
fn is_one_mov(body: &[String], side: &Side, displacement: &str) -> bool {
    let (accesses, others): (Vec<&String>, Vec<&String>) = body
        .iter()
        .partition(|instruction| instruction.contains("PTR"));
    let [access] = accesses[..] else {
        return false;
    };
    let operand = format!("+{displacement}]");
    let is_placed = match side {
        Side::Store => {
            access.starts_with("mov DWORD PTR [") && access.contains(&format!("{operand},"))
        }
        Side::Load => access.starts_with("mov e") && access.ends_with(&operand),
    };
    let harmless = [
        "mov", "movzx", "and", "or", "add", "shl", "lea", "endbr64", "ret",
    ];
    let are_harmless = others
        .iter()
        .all(|other| harmless.contains(&other.split(' ').next().unwrap_or_default()));
    is_placed && are_harmless
}

#[test]
fn a_register_access_is_one_mov() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the expected instructions are those of x86_64");
        return;
    }
    if !is_present("objdump") {
        return;
    }
    let listing = run(Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", "-M", "intel"])
        .arg(probe("asm_probe")));
    let accesses = [
        ("probe_cqp_doorbell", Side::Store, "0x500800"),
        ("probe_cqp_doorbell_field", Side::Store, "0x500800"),
        ("probe_send_doorbell", Side::Store, "0x7f0000"),
        ("probe_page_arm", Side::Store, "0x40"),
        ("probe_enable_vector_5", Side::Store, "0x160014"),
        ("probe_enable_vector", Side::Store, "0x160000"),
        ("probe_bind_ceq", Side::Store, "0x15c000"),
        ("probe_set_interval", Side::Store, "0x154000"),
        ("probe_read_cqp_tail", Side::Load, "0x500880"),
    ];
    // Those without an index or a field are nothing else at all.
    let bare = [
        "probe_cqp_doorbell",
        "probe_send_doorbell",
        "probe_page_arm",
        "probe_enable_vector_5",
    ];
    for (function, side, displacement) in accesses {
        let body = instructions(&listing, function);
        let body = body.unwrap_or_else(|| panic!("{function} has no ret:\n{listing}"));
        println!("{function}: {}", body.join("; "));
        assert!(
            is_one_mov(&body, &side, displacement),
            "{function}: {body:?}"
        );
        assert!(
            body.len() == 2 || !bare.contains(&function),
            "{function}: {body:?}"
        );
    }
}

#[test]
fn the_reader_of_listings_refuses_what_is_not_one_mov() {
    let store = "mov DWORD PTR [rdi+0x500800],esi";
    let judge = |instructions: &[&str]| {
        let body: Vec<String> = instructions.iter().map(|&i| i.to_owned()).collect();
        is_one_mov(&body, &Side::Store, "0x500800")
    };
    assert!(judge(&[store, "ret"]));
    assert!(judge(&["and esi,0x7ff", store, "ret"]));
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
        assert!(!judge(wrong), "{wrong:?}");
    }
    let listing = "0000 <f>:\n   0:\tmov    eax,0x1\n   5:\tret\n\n0000 <g>:\n   0:\tud2\n";
    let found = instructions(listing, "f").expect("a function with a ret");
    assert_eq!(found, ["mov eax,0x1", "ret"]);
    assert_eq!(instructions(listing, "g"), None);
    assert_eq!(instructions(listing, "h"), None);
}

#[test]
fn no_panic_path_is_left_in_the_core() {
    if !is_present("nm") {
        return;
    }
    // That of connections has the core's too.
    let probes = ["asm_probe", "net_probe", "cm_probe", "connect_probe"];
    let mut objects = probes.map(probe).to_vec();
    let mut rlibs = core_rlibs();
    // Its flags can be read from text (bitflags). That code may panic, and nothing calls it.
    rlibs.retain(|(name, _)| name != "e810_adminq");
    objects.extend(rlibs.into_iter().map(|(_, rlib)| rlib));
    for object in objects {
        let found = panic_paths(&object);
        assert!(found.is_empty(), "{}: {found:#?}", object.display());
    }
}

#[test]
fn a_panic_path_would_be_seen() {
    if !is_present("nm") {
        return;
    }
    fs::create_dir_all(target()).expect("a folder for objects");
    let object = own_object("panics");
    let file = object.with_extension("rs");
    for source in [
        "pub fn f(s: &[u8], i: usize) -> u8 { s[i] }",
        "pub fn f(s: &[u8], i: usize) -> &[u8] { &s[i..] }",
        "pub fn f(s: Option<u8>) -> u8 { s.unwrap() }",
        "pub fn f(s: Option<u8>) -> u8 { s.expect(\"some\") }",
        "pub fn f(a: u32, b: u32) -> u32 { a / b }",
        "pub fn f(a: &str, b: usize) -> &str { &a[b..] }",
    ] {
        let text = format!("#![no_std]\n#[unsafe(no_mangle)]\n{source}");
        fs::write(&file, text).expect("a source that is written");
        let crate_name = ["--crate-name", "panics"];
        run(rustc().args(crate_name).arg(&file).arg("-o").arg(&object));
        assert!(!panic_paths(&object).is_empty(), "{source}");
    }
}
