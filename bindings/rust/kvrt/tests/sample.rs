//! The sample, as a user runs it: it saves each turn, goes on in the next process, and Ctrl-C ends an answer.
mod support;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::io::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use support::*;

extern "C" {
    fn pipe(ends: *mut i32) -> i32;
    fn fcntl(descriptor: i32, command: i32, argument: i32) -> i32;
    fn ioctl(descriptor: i32, command: u64, argument: *mut i32) -> i32;
    fn kill(pid: i32, signal: i32) -> i32;
}

const F_SETPIPE_SZ: i32 = 1031;
const FIONREAD: u64 = 0x541b;
const SIGINT: i32 = 2;

/// Cargo builds the examples beside the tests.
fn chat() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/chat")
}

fn start(folder: &Folder, tokens: &str, out: Stdio) -> Child {
    let mut command = Command::new(chat());
    command.arg(model_path()).arg(folder.path().join("store")).args(["ann", tokens]);
    command.stdin(Stdio::piped()).stdout(out).stderr(Stdio::piped()).spawn().unwrap()
}

fn talk(folder: &Folder, lines: &str) -> Output {
    let mut child = start(folder, "8", Stdio::piped());
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn a_conversation_goes_on() {
    let folder = Folder::new();
    for run in 0..2 {
        let output = talk(&folder, "Hello\nAnd \"more\"?\n");
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(told.matches("[ann goes on: ").count(), run, "{told}");
        assert_eq!((told.matches(" is saved]").count(), told.matches("first token after").count()), (2, 2), "{told}");
        assert!(output.stdout.iter().filter(|&&c| c == b'\n').count() >= 2);
    }
    let runtime = runtime();
    let store = kvrt::Store::open(&runtime, folder.path().join("store"), &Default::default()).unwrap();
    let entry = store.stat("", "ann").unwrap();
    assert_eq!(entry.revision, 4);
    let shown = store.show("", "ann").unwrap();
    assert_eq!(shown.matches("And \\\"more\\\"?").count(), 2, "{shown}");
}

/// A pipe with room for 8 bytes, and the number of bytes that are in it: a longer answer stops in the middle of being written.
fn nearly_full_pipe() -> (File, File, i32) {
    let mut ends = [0; 2];
    let size = unsafe {
        assert_eq!(pipe(ends.as_mut_ptr()), 0);
        fcntl(ends[1], F_SETPIPE_SZ, 4096)
    };
    let (read, mut write) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    write.write_all(&vec![b'.'; size as usize - 8]).unwrap();
    (read, write, size - 8)
}

/// Reads on until the answer is over.
fn read_to_its_end(read: &mut File) -> String {
    let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
    while !said.ends_with(b"\n[interrupted]\n") {
        match read.read(&mut bytes).unwrap() {
            0 => break,
            size => said.extend_from_slice(&bytes[..size]),
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// A chat whose first answer Ctrl-C has ended, and what it said. The pipe must stay open: the chat would not write into a closed one.
fn interrupted(folder: &Folder) -> (Child, File, String) {
    let (mut read, write, before) = nearly_full_pipe();
    let mut child = start(folder, "400", Stdio::from(write));
    child.stdin.as_mut().unwrap().write_all(b"Hello\n").unwrap();
    let mut bytes = before;
    while bytes == before {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(unsafe { ioctl(read.as_raw_fd(), FIONREAD, &mut bytes) }, 0);
    }
    assert_eq!(unsafe { kill(child.id() as i32, SIGINT) }, 0);
    let said = read_to_its_end(&mut read);
    (child, read, said)
}

#[test]
fn ctrl_c_ends_the_answer_alone() {
    let folder = Folder::new();
    let (child, _read, said) = interrupted(&folder);
    let output = child.wait_with_output().unwrap(); // closes its input: the chat ends at the next prompt
    assert!(output.status.success(), "{output:?}");
    assert!(said.ends_with("\n[interrupted]\n") && said.len() < 4096 + 200, "{said}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("[turn 1 is saved]"), "{output:?}");
}

/// The second one may come at the prompt and end the chat, but not between the answer and its save.
#[test]
fn a_second_ctrl_c_does_not_lose_the_answer() {
    let folder = Folder::new();
    let (child, _read, said) = interrupted(&folder);
    assert_eq!(unsafe { kill(child.id() as i32, SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    let store = kvrt::Store::open(&runtime(), folder.path().join("store"), &Default::default()).unwrap();
    let entry = store.stat("", "ann").unwrap_or_else(|error| panic!("{error}; {said}; {output:?}"));
    assert_eq!(entry.revision, 1);
}
