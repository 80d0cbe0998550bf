// Package kvrt is LLM inference in your process, with conversations that survive it.
//
// It is include/kvrt.h for Go, one call of C for each operation, and keeps its names: kvrt_session_append_text is Session.AppendText, the fields
// of an options struct are those of the Go struct, and its zero value has all defaults. That header is the manual: it says of every call which
// statuses it has, how long it may block, and what may be called beside it. (pkg-config finds the header and the library: package kvrt.)
//
// What Go adds:
//   - Every failure is an *Error. errors.Is(err, kvrt.StatusNotFound) asks for its status, errors.Is(err, kvrt.DetailNameTaken) for its detail.
//   - A context ends the call that takes it, deadlines included: the error is then CANCELLED, and also the context's own.
//   - A generation is a Stream (Next, Close), a callback (Session.Generate), or with Go 1.23 a loop (Session.All). No goroutine outlives a call.
//   - An error that a callback returns comes out of the call that it stopped. So does its panic, after the call has ended in good order. A callback
//     must not end its goroutine (runtime.Goexit, testing's FailNow): that ends the program.
//   - Handles may be closed in any order, more than once, from any goroutine, also during calls: the last call inside frees the handle. A handle
//     that is dropped is closed by a finalizer, some time later: do not rely on it, memory that Go does not see hangs on it.
//   - Nothing that C reads or writes is kept: no Go memory is used by the library after a call, and no event points into the library.
package kvrt

/*
#cgo pkg-config: kvrt
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

type field struct {
	name   string
	offset uintptr
}

type layout struct {
	name   string
	size   uintptr
	fields []field
}

var (
	loadOnce sync.Once
	loadErr  error
)

// loaded compares the library with this package, once: every way to a handle begins here.
func loaded() error {
	loadOnce.Do(func() { loadErr = compare(uint32(C.kvrt_abi_version()), layouts()) })
	return loadErr
}

func compare(abi uint32, structs []layout) error {
	if abi != abiVersion {
		return mismatch("the library has ABI %d, this package knows %d", abi, abiVersion)
	}
	for _, s := range structs {
		name := C.CString(s.name)
		defer C.free(unsafe.Pointer(name))
		// A longer struct has fields that were appended later.
		if size := uintptr(C.kvrt_struct_size(name)); size < s.size {
			return mismatch("%s has %d bytes in the library, this package knows %d: the library is older", s.name, size, s.size)
		}
		for _, f := range s.fields {
			fieldName := C.CString(f.name)
			offset := uint32(C.kvrt_struct_offset(name, fieldName))
			C.free(unsafe.Pointer(fieldName))
			if uintptr(offset) != f.offset {
				return mismatch("%s.%s lies at %d in the library (4294967295: nowhere), this package knows it at %d", s.name, f.name, offset, f.offset)
			}
		}
	}
	return nil
}

func mismatch(format string, values ...any) error {
	return &Error{Status: StatusIncompatible, Message: "kvrt: the library does not fit this package: " + fmt.Sprintf(format, values...)}
}

// Version gives the version of the library that runs, which may be newer than this package: "0.1.0".
func Version() string {
	v := uint32(C.kvrt_version())
	return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&255, v&255)
}

// ---- values of the generated code ----

type flagName struct {
	bit  uint32
	name string
}

func flagNames(v uint32, names []flagName) string {
	out := ""
	add := func(s string) {
		if out != "" {
			out += "|"
		}
		out += s
	}
	for _, n := range names {
		if v&n.bit != 0 {
			add(n.name)
			v &^= n.bit
		}
	}
	if v != 0 || out == "" {
		add(fmt.Sprint(v))
	}
	return out
}

// A value that a newer library has: kvrt.h says how to treat it.
func unknown(v int64) string { return fmt.Sprintf("UNKNOWN(%d)", v) }

func flag(set bool) C.uint32_t {
	if set {
		return 1
	}
	return 0
}

func chars(c []C.char) string {
	text := unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), len(c))
	for i, b := range text {
		if b == 0 {
			return string(text[:i])
		}
	}
	return string(text)
}

func numbers[T ~uint32](c [8]C.uint32_t) (out [8]T) {
	for i, v := range c {
		out[i] = T(v)
	}
	return out
}
