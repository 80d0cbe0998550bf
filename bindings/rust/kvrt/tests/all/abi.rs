//! All of kvrt.h is reached, and a library that has another layout is refused.
use crate::support::source;
use std::collections::BTreeSet;
use std::fs::read_to_string;

/// The names in the objects of kvrt.abi.json that begin with a prefix: the file has a line for each.
fn described(section: &str) -> Vec<(String, String)> {
    let text = read_to_string(source().join("include/kvrt.abi.json")).unwrap();
    let begin = text.find(&format!("\n  \"{section}\": {{")).expect("the section") + 1;
    let end = begin + text[begin..].find("\n  }").expect("its end");
    let named = |line: &str| {
        let (name, rest) = line.trim().strip_prefix('"')?.split_once("\":")?;
        Some((name.to_string(), rest.to_string()))
    };
    text[begin..end].lines().skip(1).filter_map(named).filter(|(name, _)| name.to_lowercase().starts_with("kvrt")).collect()
}

fn sources() -> String {
    let folder = source().join("bindings/rust");
    let of = |name: &str| {
        let files = std::fs::read_dir(folder.join(name)).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| !file.ends_with("raw.rs")).map(|file| read_to_string(file).unwrap()).collect::<String>()
    };
    of("kvrt/src") + &of("kvrt-sys/src")
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

#[test]
fn every_function_is_called() {
    let (functions, code) = (described("functions"), sources());
    assert!(functions.len() > 60, "{} functions", functions.len());
    // A shared handle's retain and release are arguments of its declaration.
    let called =
        |name: &str| code.contains(&format!("{name}(")) || code.contains(&format!(", {name},")) || code.contains(&format!(", {name}\n"));
    let missing: Vec<_> = functions.iter().filter(|(name, _)| !called(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_constant_has_a_use() {
    let text = read_to_string(source().join("include/kvrt.abi.json")).unwrap();
    let enums = &text[text.find("\"enums\"").unwrap()..text.find("\"structs\"").unwrap()];
    let constants: Vec<_> = words(enums).into_iter().filter(|word| word.starts_with("KVRT_")).collect();
    assert!(constants.len() > 120, "{} constants", constants.len());
    let code = sources();
    let used = words(&code);
    let prefixes = [
        "KVRT",
        "KVRT_DETAIL",
        "KVRT_REASON",
        "KVRT_REUSE",
        "KVRT_LOG",
        "KVRT_ISA",
        "KVRT_DEVICE",
        "KVRT_DETERMINISM",
        "KVRT_GEMM",
        "KVRT_KV",
        "KVRT_GROUP",
        "KVRT_CACHE",
        "KVRT_STATE",
        "KVRT_FOREIGN_KV",
        "KVRT_LOGITS",
        "KVRT_SAMPLER",
        "KVRT_REPLY",
        "KVRT_DURABILITY",
        "KVRT_CODEC",
        "KVRT_REPAIR",
        "KVRT_EVENT",
        "KVRT_TEXT",
        "KVRT_INSPECT",
        "KVRT_GRAMMAR",
        "KVRT_TOOL_CHOICE",
    ];
    // An enum's own name is a prefix; store_list reads an ENTRY by its field.
    let missing: Vec<_> = constants.iter().filter(|c| !used.contains(**c) && !prefixes.contains(c) && **c != "KVRT_EVENT_ENTRY").collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_field_is_reached() {
    let text = read_to_string(source().join("include/kvrt.abi.json")).unwrap();
    let code = sources();
    let mut fields = 0;
    for (name, size, offsets) in kvrt_sys::layout() {
        assert!(text.contains(&format!("\"{name}\": {{")), "{name}");
        assert!(text.contains(&format!("\"size\": {size}")), "{name} has {size} bytes");
        for (field, offset) in offsets {
            fields += 1;
            assert!(text.contains(&format!("\"name\": \"{field}\"")), "{name}.{field} at {offset}");
            // Options are written into `raw`; what the library fills is read from it, or declared with the same name.
            let (written, declared) = (code.contains(&format!("raw.{field}")), code.contains(&format!(" {field}: ")));
            let read = ["props", "event"].iter().any(|from| code.contains(&format!("{from}.{field}")));
            let reached = ["struct_size", "reserved"].contains(&field) || written || !name.ends_with("_options") && (declared || read);
            assert!(reached, "{name}.{field}");
        }
    }
    assert!(fields > 300, "{fields} fields");
}

#[test]
fn the_library_fits() {
    assert_eq!(kvrt_sys::check(), Ok(()));
    assert_eq!(kvrt::version(), (0, 1, 0));
}

#[test]
fn numbers_keep_what_they_do_not_know() {
    use kvrt::*;
    for &(name, status) in Status::ALL_NAMED {
        assert_eq!((format!("{status:?}"), status.to_string()), (name.to_string(), name.to_string()));
    }
    let status = Status::from(99);
    assert_eq!((format!("{status:?}"), status.to_string(), status.number()), ("UNKNOWN_99".into(), "UNKNOWN".into(), 99));
    assert_eq!(Reason::from(3), Reason::MAX_TOKENS);
    assert_eq!((Detail::default(), KvFormat::default().number()), (Detail::NONE, 0));
    assert!(matches!(Status::from(2), Status::NOT_FOUND));
}
