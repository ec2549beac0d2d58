//! The commands of docs/first-day.md that need no kernel's driver, as the page has them, on
//! functions of a server. The whole page is run in a guest: tests/guest/steps-first-day.

use std::path::{Path, PathBuf};

use super::processes::{E810, End, ServerProcess, folder, package, until};

/// A block of commands, and what they print.
#[derive(Debug, Default)]
struct Block {
    section: String,
    commands: Vec<String>,
    printed: Vec<String>,
    /// `first` or `second` host; otherwise both.
    host: String,
}

fn page() -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/first-day.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let (mut section, mut kind) = (String::new(), "");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut section);
        } else if line.starts_with("```sh") && kind.is_empty() {
            kind = "sh";
            let host = line.split("host=").nth(1).unwrap_or_default();
            blocks.push(Block {
                section: section.clone(),
                host: host.to_owned(),
                ..Block::default()
            });
        } else if line.starts_with("```text") && kind.is_empty() {
            kind = "text";
        } else if line.starts_with("```") {
            kind = "";
        } else if let Some(block) = blocks.last_mut() {
            match kind {
                "sh" => block.commands.push(line.to_owned()),
                "text" => block.printed.push(line.to_owned()),
                _ => {}
            }
        }
    }
    blocks
}

/// The arguments of a command of the page, of a function that is served at `socket`.
fn arguments(command: &str, socket: &Path, port: u16) -> Vec<String> {
    let device = format!("vfio-user:{}", socket.display());
    let words = command.split_whitespace().skip(1);
    let words = words.map(|word| {
        let word = word.replace("$CARD", &device).replace("$HOST", "127.0.0.1");
        word.replace(":18515", &format!(":{port}"))
    });
    words.collect()
}

/// Whether a line of `out` has the parts of `wanted` between `…`, in order; blanks count as one.
fn is_printed(out: &str, wanted: &str) -> bool {
    let one_blank = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    out.lines().any(|line| {
        let line = one_blank(line);
        let mut rest = line.as_str();
        wanted.split('…').map(one_blank).all(|part| {
            let found = rest.find(&part).map(|at| rest.split_at(at + part.len()).1);
            rest = found.unwrap_or_default();
            found.is_some()
        })
    })
}

fn check(block: &Block, port: u16, end: &End) {
    assert!(end.status.success(), "{block:?}: {end:?}");
    for line in &block.printed {
        let line = line.replace(":18515", &format!(":{port}"));
        let printed = [&end.out, &end.err];
        let is_there = printed.iter().any(|text| is_printed(text, &line));
        assert!(is_there, "not printed: {line}: {end:?}");
    }
}

#[test]
fn the_page_says_what_is_printed() {
    let server = ServerProcess::start();
    let folder = folder();
    let environment = [("E810_DDP", package().to_str().unwrap())];
    let start = |command: &str, socket: &PathBuf, port| {
        let mut arguments = arguments(command, socket, port);
        for argument in &mut arguments {
            if argument.ends_with(".jsonl") {
                *argument = folder.as_path().join(&argument).display().to_string();
            }
        }
        E810::start_with(&arguments, &environment)
    };
    let (mut ran, mut port) = (0, 18_600 + std::process::id() as u16 % 1000);
    let mut listening: Option<(Block, E810)> = None;
    for block in page() {
        // What concerns the machine's kernel is for the guest.
        let number = block.section.chars().next().and_then(|c| c.to_digit(10));
        if !number.is_some_and(|number| (5..=8).contains(&number)) {
            continue;
        }
        ran += 1;
        let [command] = &block.commands[..] else {
            panic!("{block:?}");
        };
        match block.host.as_str() {
            "first" => {
                port += 1;
                let running = start(command, &server.paths[0], port);
                listening = Some((block, running));
            }
            "second" => {
                // It waits for the first one to listen, as a person would.
                until("the listener", || {
                    let ports = std::fs::read_to_string("/proc/net/tcp").unwrap()
                        + &std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
                    let wanted = format!(":{port:04X} ");
                    ports
                        .lines()
                        .any(|line| line.contains(&wanted) && line.contains(" 0A "))
                        .then_some(())
                });
                let second = start(command, &server.paths[1], port).end();
                check(&block, port, &second);
                let (first, running) = listening.take().unwrap();
                check(&first, port, &running.end());
            }
            _ => {
                let end = start(command, &server.paths[0], port).end();
                check(&block, port, &end);
            }
        }
    }
    assert_eq!(ran, 7);
}

/// The commands that need a kernel's driver are run in a guest; here, that they are commands.
#[test]
fn every_command_of_the_page_is_one() {
    use clap::Parser;
    let mut commands = 0;
    for block in page() {
        let lines = block.commands.iter();
        for line in lines.filter(|line| line.starts_with("e810 ")) {
            let line = line.replace("$CARD", "0000:3b:00.0");
            let words = line.replace("$HOST", "192.168.0.1");
            let parsed = e810_host::cli::Cli::try_parse_from(words.split_whitespace());
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
            commands += 1;
        }
    }
    assert_eq!(commands, 14);
}
