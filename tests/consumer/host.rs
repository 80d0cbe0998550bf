// A Rust program that carries an SQLite of its own, as crates that bundle it do. Exits 3 where kvrt refuses it, with what it says.
use std::os::raw::{c_char, c_int, c_void};

#[no_mangle]
pub extern "C" fn sqlite3_libversion() -> *const c_char {
    b"0.0.1-host\0".as_ptr() as *const c_char
}

#[no_mangle]
pub extern "C" fn sqlite3_step(_: *mut c_void) -> c_int {
    std::process::exit(9)
}

#[repr(C)]
struct Error {
    struct_size: u32,
    status: i32,
    detail: i32,
    os_code: i32,
    message: [u8; 1008],
}

extern "C" {
    fn kvrt_runtime_open(options: *const c_void, out: *mut *mut c_void, err: *mut Error) -> i32;
    fn kvrt_runtime_release(runtime: *mut c_void);
}

fn main() {
    let mut runtime = std::ptr::null_mut();
    let mut error = Error { struct_size: 1024, status: 0, detail: 0, os_code: 0, message: [0; 1008] };
    unsafe {
        if kvrt_runtime_open(std::ptr::null(), &mut runtime, &mut error) != 0 {
            println!("{}", String::from_utf8_lossy(&error.message).trim_end_matches('\0'));
            std::process::exit(if error.status == 14 { 3 } else { 4 });
        }
        kvrt_runtime_release(runtime);
    }
    println!("worked");
}
