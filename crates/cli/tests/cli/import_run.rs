//! `import tc --run`: the limits of its sandbox, and the files beside a script.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::{Scratch, fairlink};

/// A device with one class, which a script sets up so that there is something to import.
const CLASS: &str = "tc qdisc add dev eth0 root handle 1: htb default 10\ntc class add dev eth0 parent 1: classid 1:10 htb rate 1mbit\n";

/// The processes with a text in their environment as it was at their start, or in that of a shell that forked them.
fn with_environment(text: &str) -> Vec<String> {
    let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let has = |id: &String| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.windows(text.len()).any(|part| part == text.as_bytes())
    };
    ids.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())).filter(has).collect()
}

#[test]
fn a_script_that_does_not_end_is_stopped_after_the_limit() {
    let dir = Scratch::new();
    let script = dir.write("endless.sh", "#!/bin/sh\nwhile :; do :; done\n");
    let run = fairlink(&["import", "tc", "--run", &script, "--run-limit", "50ms"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    for said in ["gave no command of tc", "WARNING: the script was stopped after 0.05 s", "--run-limit"] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    for (limit, why) in [("0s", "0 is no time"), ("601s", "the limit is 600 s"), ("5", "5")] {
        let run = fairlink(&["import", "tc", "--run", &script, "--run-limit", limit]);
        assert!(run.code == 2 && run.stderr.contains(why), "{limit}: {}", run.stderr);
    }
    // It says nothing of a file that is not run.
    let run = fairlink(&["import", "tc", &script, "--run-limit", "5s"]);
    assert!(run.code == 2 && run.stderr.contains("--run"), "{}", run.stderr);
}

#[test]
fn no_process_of_a_script_lives_on() {
    let dir = Scratch::new();
    // A loop in the background, one whose parent has ended, and one that requests its own session. The script ends when
    // all of them run, or when the session was refused.
    let text = format!(
        "#!/bin/sh\n{CLASS}\
         (echo > $TMPDIR/one; while :; do :; done) &\n\
         ( (echo > $TMPDIR/two; while :; do :; done) & )\n\
         (setsid sh -c 'echo > $TMPDIR/three; while :; do :; done' || echo > $TMPDIR/three) &\n\
         until [ -e $TMPDIR/one ] && [ -e $TMPDIR/two ] && [ -e $TMPDIR/three ]; do :; done\n"
    );
    let script = dir.write("leaves.sh", &text);
    let mark = format!("LEFT_BY=test-{}-{}", std::process::id(), dir.path("").len());
    let args = ["import", "tc", "--run", &script, "--set", &mark, "--no-compare", "--run-limit", "600s"];
    let run = fairlink(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.contains("WARNING"), "{}", run.stderr);
    assert!(run.stdout.contains("name = \"1:10\""), "{}", run.stdout);
    // A process that was killed may take a moment to be gone.
    let begun = Instant::now();
    while !with_environment(&mark).is_empty() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(with_environment(&mark), Vec::<String>::new());
}

/// A program that calls getpid by the calls of 32 bits (`int 0x80`), and then ends with 0.
#[cfg(target_arch = "x86_64")]
fn calls_of_32_bits() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEAD: u64 = 64 + 56;
    // mov eax, 20; int 0x80; mov eax, 60; xor edi, edi; syscall
    let code = [0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];
    let length = HEAD + code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for (number, bytes) in [
        // An executable for x86_64, version 1, with its entry; one program header behind this one, and no sections.
        (2, 2),
        (62, 2),
        (1, 4),
        (BASE + HEAD, 8),
        (64, 8),
        (0, 8),
        (0, 4),
        (64, 2),
        (56, 2),
        (1, 2),
        (0, 2),
        (0, 2),
        (0, 2),
        // All of the file, to be read and executed.
        (1, 4),
        (5, 4),
        (0, 8),
        (BASE, 8),
        (BASE, 8),
        (length, 8),
        (length, 8),
        (0x1000, 8),
    ] {
        elf.extend(&number.to_le_bytes()[..bytes]);
    }
    elf.extend(code);
    elf
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_another_architecture_end_a_process() {
    let dir = Scratch::new();
    fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path("getpid32");
    fs::write(&program, calls_of_32_bits()).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let alone = std::process::Command::new(&program).status().unwrap();
    if !alone.success() {
        println!("SKIPPED: this kernel has no calls of 32 bits: {alone}");
        return;
    }
    let script = dir.write("calls.sh", &format!("#!/bin/sh\n{CLASS}\"$(dirname \"$0\")/getpid32\"\nexit $?\n"));
    let run = fairlink(&["import", "tc", "--run", &script, "--no-compare"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // 128 and SIGSYS.
    assert!(run.stderr.contains("the script ended with exit status: 159"), "{}", run.stderr);
}

#[test]
fn a_script_finds_the_files_beside_itself_and_their_programs_are_recorded() {
    let dir = Scratch::new();
    fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(dir.path("lib")).unwrap();
    for (name, text) in [
        ("settings", "RATE=3mbit\n"),
        ("lib/shape.sh", "shape() { tc qdisc add dev $1 root handle 1: htb default 10; }\n"),
        ("class.sh", "class() { /sbin/tc class add dev $1 parent 1: classid 1:10 htb rate $RATE; }\n"),
    ] {
        fs::write(dir.path(name), text).unwrap();
        fs::set_permissions(dir.path(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let text = "#!/bin/sh\nhere=$(dirname \"$0\")\n. $here/settings\n. \"$here/lib/shape.sh\"\n. $here/class.sh\nshape eth0\nclass eth0\n";
    let script = dir.write("start", text);
    let run = fairlink(&["import", "tc", "--run", &script, "--no-compare"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("guarantee = \"3Mbit\""), "{}", run.stdout);
}

#[test]
fn a_device_that_a_script_makes_tries_and_deletes_is_no_link() {
    let dir = Scratch::new();
    let text = format!(
        "#!/bin/sh\nsource /dev/null\nip link add name try0 type ifb &> /dev/null\ntc qdisc replace dev try0 root htb\nip link delete try0 type ifb\n{CLASS}"
    );
    let script = dir.write("tries.sh", &text);
    let run = fairlink(&["import", "tc", "--run", &script, "--no-compare"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("name = \"1:10\"") && !run.stdout.contains("try0"), "{}", run.stdout);
}
