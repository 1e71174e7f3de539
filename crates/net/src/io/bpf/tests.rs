//! Programs loaded into this machine's kernel and run on frames made here. If the kernel does not allow that, a line
//! that starts with `SKIPPED:` gives the reason.

use std::sync::atomic::Ordering;

use super::assembler::{Function, Register::*, When, Width};
use super::*;
use std::os::fd::AsFd;

const PROG_TEST_RUN: libc::c_int = 10;
const LINK_DETACH: libc::c_int = 34;

/// Detaches the program of `link` from its interface, as `bpftool link detach` does.
pub(crate) fn detach(link: &Link) {
    // SAFETY: this command follows no pointer.
    unsafe { Attributes::new().fd(0, &link.fd).run(LINK_DETACH) }.unwrap();
}

/// Runs `program` on `frame` on this thread's processor and returns its result.
pub(crate) fn run(program: &Program, frame: &[u8]) -> io::Result<u32> {
    let attributes = Attributes::new().fd(0, &program.fd).u32(8, frame.len() as u32).pointer(16, frame.as_ptr());
    let mut attributes = attributes.u32(32, 1);
    // SAFETY: the frame is readable for its length. The kernel writes the result into the attributes themselves, which
    // are mutable here and not read elsewhere.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_TEST_RUN, attributes.0.as_mut_ptr(), attributes.0.len()) };
    sys::check(result as libc::c_int)?;
    Ok(u32::from_ne_bytes(*attributes.0[4..].first_chunk().unwrap()))
}

/// Returns the outcome, or prints the reason and returns `None` if this process may not use bpf(2).
pub(crate) fn allowed<T>(outcome: Result<T, BpfError>) -> Option<T> {
    match outcome {
        Err(error) if matches!(error.source.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
            println!("SKIPPED: {error}");
            None
        }
        outcome => Some(outcome.unwrap_or_else(|error| panic!("{error}"))),
    }
}

#[test]
fn a_program_reads_what_this_process_writes_into_a_shared_page() {
    let Some(map) = allowed(Map::shared_array("page", 1, 8)) else { return };
    let page = map.share(1).unwrap();
    let mut code = Assembler::new();
    code.map_value(R1, map.fd.as_fd()).load(Width::Eight, R0, R1, 0).exit();
    let program = Program::load(ProgramKind::SocketFilter, "reads", None, code).unwrap();
    for value in [0, 7, 123_456] {
        page.first().store(value, Ordering::Relaxed);
        assert_eq!(u64::from(run(&program, &[0; 60]).unwrap()), value);
    }
}

#[test]
fn what_the_verifier_refuses_is_told_in_its_words() {
    // The result is not set.
    let mut code = Assembler::new();
    code.exit();
    let Err(error) = Program::load(ProgramKind::SocketFilter, "empty", None, code) else { panic!("it was taken") };
    if error.source.raw_os_error() == Some(libc::EPERM) {
        println!("SKIPPED: {error}");
        return;
    }
    let text = error.to_string();
    assert!(text.contains("loading the program empty") && text.contains("verifier: R0 !read_ok"), "{text}");
}

#[test]
fn jumps_go_where_their_labels_are() {
    // 1 for a number above 5, 2 for 5, 3 below.
    let Some(map) = allowed(Map::shared_array("number", 1, 8)) else { return };
    let page = map.share(1).unwrap();
    let mut code = Assembler::new();
    let [above, equal] = [code.label(), code.label()];
    code.map_value(R1, map.fd.as_fd()).load(Width::Eight, R6, R1, 0);
    code.set(R7, 5).jump_registers(When::Greater, R6, R7, above).jump(When::Equal, R6, 5, equal);
    code.set(R0, 3).exit();
    code.here(above).set(R0, 1).exit();
    code.here(equal).set(R0, 2).exit();
    let program = Program::load(ProgramKind::SocketFilter, "compares", None, code).unwrap();
    let answers = [4, 5, 6, 1 << 40].map(|number: u64| {
        page.first().store(number, Ordering::Relaxed);
        run(&program, &[0; 60]).unwrap()
    });
    assert_eq!(answers, [3, 2, 1, 1]);
}

#[test]
fn a_program_array_is_empty_for_all_who_use_it_once_its_descriptor_is_closed() {
    let Some(programs) = allowed(Map::new(MapKind::Programs, "programs", 1, 4)) else { return };
    let mut code = Assembler::new();
    code.set(R0, 9).exit();
    let inner = Program::load(ProgramKind::SocketFilter, "inner", None, code).unwrap();
    let mut code = Assembler::new();
    code.map(R2, programs.fd.as_fd()).set(R3, 0).call(Function::TailCall).set(R0, 4).exit();
    let outer = Program::load(ProgramKind::SocketFilter, "outer", None, code).unwrap();
    assert_eq!(run(&outer, &[0; 60]).unwrap(), 4);
    programs.set_program(0, &inner).unwrap();
    assert_eq!(run(&outer, &[0; 60]).unwrap(), 9);
    let moved = move_up(programs.fd).unwrap();
    assert!(moved.as_raw_fd() >= 100, "{moved:?}");
    assert_eq!(run(&outer, &[0; 60]).unwrap(), 9);
    drop(moved);
    // A kernel worker empties it soon.
    while run(&outer, &[0; 60]).unwrap() == 9 {
        std::thread::yield_now();
    }
    assert_eq!(run(&outer, &[0; 60]).unwrap(), 4);
}
