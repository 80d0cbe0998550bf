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
)

func main() {
	var runtime *C.kvrt_runtime
	var failure C.kvrt_error
	failure.struct_size = C.sizeof_kvrt_error
	if C.kvrt_runtime_open(nil, &runtime, &failure) != C.KVRT_OK {
		fmt.Println(C.GoString(&failure.message[0]))
		if failure.status == C.KVRT_UNSUPPORTED {
			os.Exit(3)
		}
		os.Exit(4)
	}
	C.kvrt_runtime_release(runtime)
	fmt.Println("worked")
}
