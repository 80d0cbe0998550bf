// A Go program that carries an SQLite of its own, as go-sqlite3 does. Exits 3 where kvrt refuses it, with what it says.
package main

/*
#cgo LDFLAGS: -lkvrt
#include <kvrt.h>
#include <stdlib.h>

const char* sqlite3_libversion(void) { return "0.0.1-host"; }
int sqlite3_step(void* statement) { (void)statement; exit(9); }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	runtime.LockOSThread()
	var opened *C.kvrt_runtime
	if C.kvrt_runtime_open(nil, &opened) != C.KVRT_OK {
		var failure C.kvrt_error
		failure.struct_size = C.sizeof_kvrt_error
		C.kvrt_last_error(&failure)
		fmt.Println(C.GoString(&failure.message[0]))
		if failure.status == C.KVRT_UNSUPPORTED {
			os.Exit(3)
		}
		os.Exit(4)
	}
	C.kvrt_runtime_release(opened)
	fmt.Println("worked")
}
