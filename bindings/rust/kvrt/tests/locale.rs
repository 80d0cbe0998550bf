//! Numbers have a point under a locale that has a comma. It has a process of its own: a locale is the process's.
mod support;
use kvrt::*;
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use support::*;

extern "C" {
    fn setlocale(category: i32, locale: *const c_char) -> *const c_char;
    fn snprintf(out: *mut c_char, size: usize, format: *const c_char, ...) -> i32;
}

const LC_ALL: i32 = 6;

/// Makes de_DE in the folder, and takes it, as a host does that calls setlocale.
fn german(folder: &Folder) {
    let made = folder.path().join("de_DE.UTF-8");
    let localedef = std::process::Command::new("localedef").args(["-i", "de_DE", "-f", "UTF-8", "--no-archive"]).arg(&made).status();
    assert!(localedef.expect("localedef (Debian: libc-bin, locales)").code() < Some(4));
    std::env::set_var("LOCPATH", folder.path());
    let name = CString::new("de_DE.UTF-8").unwrap();
    let mut half: [c_char; 8] = [0; 8];
    let half = unsafe {
        assert!(!setlocale(LC_ALL, name.as_ptr()).is_null(), "de_DE is not in force");
        snprintf(half.as_mut_ptr(), half.len(), b"%.1f\0".as_ptr().cast(), 0.5f64);
        CStr::from_ptr(half.as_ptr())
    };
    assert_eq!(half.to_str(), Ok("0,5"));
}

/// What the library reads and writes of numbers.
fn numbers(stage: &Stage) -> (String, String, Vec<i32>, String) {
    let options = TemplateOptions {
        source: Some("{{ messages[0].x }} {{ v * 2 }} {{ 1e-7 }}"),
        variables: Some("{\"v\": 1.25}"),
        ..Default::default()
    };
    let rendered = apply_template("[{\"role\": \"user\", \"x\": 0.5}]", &options).unwrap();
    let schema = r#"{"type": "number", "minimum": 1.25, "maximum": 1.5}"#;
    let options = GenerateOptions { grammar: Grammar::JsonSchema(schema), temperature: 1.5, seed: 3, ..Default::default() };
    let number = stage.with(&PROMPT).stream(&options).unwrap().read().unwrap();
    let sampled = answer(&mut stage.with(&PROMPT), &GenerateOptions { temperature: 0.7, top_p: 0.95, min_p: 0.05, seed: 5, ..count(20) });
    let metrics = stage.model.metrics_text(None).unwrap();
    let seconds = metrics.lines().find(|line| line.contains("seconds") && line.contains('.')).expect("a real number").to_string();
    (rendered, number, sampled, seconds)
}

#[test]
fn under_a_german_locale() {
    let stage = Stage::new();
    let before = numbers(&stage);
    german(&stage.folder);
    let german = numbers(&stage);
    assert_eq!(german.0, "0.5 2.5 1e-07");
    assert_eq!((&german.0, &german.1, &german.2), (&before.0, &before.1, &before.2));
    let number: f64 = german.1.parse().expect("JSON has a point");
    assert!((1.25..=1.5).contains(&number), "{number}");
    assert!(!german.3.contains(','), "{}", german.3);
}
