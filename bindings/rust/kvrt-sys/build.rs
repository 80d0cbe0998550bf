//! Finds libkvrt: in the directory KVRT_LIB_DIR, or by pkg-config. A crate that depends on this one is told the directory as DEP_KVRT_LIB_DIR.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=KVRT_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let directory = env::var("KVRT_LIB_DIR").unwrap_or_else(|_| pkg_config());
    println!("cargo:rustc-link-search=native={directory}");
    println!("cargo:rustc-link-lib=dylib=kvrt");
    println!("cargo:lib_dir={directory}");
}

/// The directory as kvrt.pc names it: --libs would leave out one that the linker searches by itself.
fn pkg_config() -> String {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let found = Command::new(&program).args(["--variable=libdir", "kvrt"]).output();
    match found {
        Ok(found) if found.status.success() => String::from_utf8_lossy(&found.stdout).trim().into(),
        Ok(found) => panic!(
            "{program} finds no kvrt: install libkvrt, set PKG_CONFIG_PATH to the directory of kvrt.pc, or KVRT_LIB_DIR to that of libkvrt.so. {}",
            String::from_utf8_lossy(&found.stderr)
        ),
        Err(error) => panic!("{program}: {error}: install it, or set KVRT_LIB_DIR to the directory of libkvrt.so"),
    }
}
