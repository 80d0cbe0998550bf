//! A chat in the terminal that outlives its process: each turn is saved, and the next run goes on where this one ended.
//!
//!     chat MODEL.gguf STORE-DIRECTORY NAME [TOKENS-PER-ANSWER]
//!
//! Ctrl-C ends an answer, and what is there of it stays. At the prompt it ends the program, as everywhere.
use kvrt::{message, GenerateOptions, Model, Runtime, Session, Status, Store};
use std::io::{stderr, stdin, stdout, Write};
use std::ops::ControlFlow::{Break, Continue};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C, by the C library that std is linked with: only a flag is set in the handler, and only from a question on until its answer is saved.
mod ctrl_c {
    const SIGINT: i32 = 2;
    const SIG_DFL: usize = 0;

    extern "C" {
        fn signal(number: i32, handler: usize) -> usize;
    }

    extern "C" fn interrupt(_: i32) {
        super::INTERRUPTED.store(true, super::Ordering::Relaxed);
    }

    pub fn sets_a_flag(yes: bool) {
        // SAFETY: the handler only stores into an atomic.
        unsafe { signal(SIGINT, if yes { interrupt as extern "C" fn(i32) as usize } else { SIG_DFL }) };
    }
}

/// Says the answer as it comes. The callback runs at every token, and in a long prompt at every step.
fn answer(chat: &mut Session, options: &GenerateOptions<'_>) -> kvrt::Result<()> {
    let outcome = chat.generate(options, |event| {
        let said = write!(stdout(), "{}", event.text()).and_then(|()| stdout().flush());
        if INTERRUPTED.load(Ordering::Relaxed) || said.is_err() {
            Break(())
        } else {
            Continue(())
        }
    });
    let report = match outcome {
        Err(error) if error.status == Status::CANCELLED => {
            let _ = writeln!(stdout(), "\n[interrupted]"); // a reader that went away is no reason to lose the answer
            return Ok(());
        }
        other => other?,
    };
    let _ = writeln!(stdout());
    eprintln!(
        "[{} prompt tokens: {} in memory, {} from disk, {} computed; first token after {:.0} ms]",
        report.prompt_tokens, report.reused_memory, report.reused_disk, report.prefilled, report.ttft_ms
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (file, directory, name, tokens) = match &arguments[..] {
        [file, directory, name] => (file, directory, name, None),
        [file, directory, name, tokens] => (file, directory, name, tokens.to_str()),
        _ => return Err("usage: chat MODEL.gguf STORE-DIRECTORY NAME [TOKENS-PER-ANSWER]".into()),
    };
    let name = name.to_str().ok_or("NAME is not UTF-8")?;
    let max_tokens = tokens.map_or(Ok(0), str::parse)?; // 0: until the model ends its turn
    let runtime = Runtime::open(&Default::default())?;
    let model = Model::open(&runtime, file, &Default::default())?;
    let store = Store::open(&runtime, directory, &Default::default())?;
    let mut chat = Session::resume_or_open(&model, &store, name, &Default::default())?;
    if let Some(report) = chat.resumed() {
        eprintln!("[{name} goes on: {} tokens, {} of them from disk]", report.prompt_tokens, report.reused_disk);
    }
    let sampled = GenerateOptions { max_tokens, temperature: 0.7, min_p: 0.05, seed: 1, ..Default::default() };
    for number in 1.. {
        eprint!("> ");
        stderr().flush()?;
        let mut line = String::new();
        if stdin().read_line(&mut line)? == 0 {
            break;
        }
        INTERRUPTED.store(false, Ordering::Relaxed);
        ctrl_c::sets_a_flag(true);
        chat.append_message(&message("user", line.trim_end()))?;
        answer(&mut chat, &sampled)?;
        chat.checkpoint(name, &Default::default())?;
        ctrl_c::sets_a_flag(false); // not before: a second Ctrl-C would lose the answer that the first one ended
        eprintln!("[turn {number} is saved]");
    }
    Ok(())
}
