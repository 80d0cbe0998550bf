// Package host does what the tests need of C and a test file cannot (cgo is not for those).
package host

/*
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

static void print_half(char* to, size_t size) { snprintf(to, size, "%.1f", 0.5); }
*/
import "C"

import "unsafe"

// SetLocale sets the process's locale from its environment, and gives 0.5 as C's printf writes it then.
func SetLocale() string {
	name := C.CString("")
	defer C.free(unsafe.Pointer(name))
	C.setlocale(C.LC_ALL, name)
	var out [16]C.char
	C.print_half(&out[0], 16)
	return C.GoString(&out[0])
}
