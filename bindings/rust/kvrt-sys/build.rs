//! Finds libkvrt: in the directory KVRT_LIB_DIR, or by pkg-config. A crate that depends on this one is told the directory as DEP_KVRT_LIB_DIR.
use std::env;
use std::process::Command;

fn main() {
    for variable in ["KVRT_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    match env::var("KVRT_LIB_DIR").or_else(|_| pkg_config()) {
        Ok(directory) => {
            println!("cargo:rustc-link-search=native={directory}");
            println!("cargo:rustc-link-lib=dylib=kvrt");
            println!("cargo:lib_dir={directory}");
        }
        Err(fault) => {
            eprintln!("{fault}");
            std::process::exit(1);
        }
    }
}

/// The directory as kvrt.pc names it: --libs would leave out one that the linker searches by itself.
fn pkg_config() -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let found = Command::new(&program).args(["--print-errors", "--variable=libdir", "kvrt"]).output();
    let found = found.map_err(|error| format!("{program}: {error}: install it, or set KVRT_LIB_DIR to the directory of libkvrt.so"))?;
    if !found.status.success() {
        return Err(format!(
            "{program} finds no kvrt: install libkvrt, set PKG_CONFIG_PATH to the directory of kvrt.pc, or KVRT_LIB_DIR to that of libkvrt.so\n{}",
            String::from_utf8_lossy(&found.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&found.stdout).trim().into())
}
