package kvrt

// #include "shim.h"
import "C"

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

// handle is a handle of C that closes once, when nobody is inside a call with it.
type handle struct {
	mu      sync.Mutex
	raw     unsafe.Pointer
	release func(unsafe.Pointer)
	kind    string
	inside  int
	closed  bool
}

func (h *handle) enter() (unsafe.Pointer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.raw == nil {
		return nil, invalid("the " + h.kind + " is nil, or was not opened")
	}
	if h.closed {
		return nil, invalid("the " + h.kind + " is closed")
	}
	h.inside++
	return h.raw, nil
}

func (h *handle) leave() {
	h.mu.Lock()
	h.inside--
	last := h.closed && h.inside == 0
	h.mu.Unlock()
	if last {
		h.release(h.raw)
	}
}

// close frees the handle, or leaves that to the last call inside; interrupt (nil: none) is called before that with such calls inside. It
// tells whether the handle was open.
func (h *handle) close(interrupt func(unsafe.Pointer)) bool {
	h.mu.Lock()
	if h.closed || h.raw == nil {
		h.mu.Unlock()
		return false
	}
	h.closed = true
	h.inside++ // this call: interrupt needs the handle
	inside := h.inside > 1
	h.mu.Unlock()
	if inside && interrupt != nil {
		interrupt(h.raw)
	}
	h.leave()
	return true
}

func (h *handle) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// call makes one call of C with the handle.
func (h *handle) call(f func(raw unsafe.Pointer, e *C.kvrt_error) C.kvrt_status) error {
	raw, err := h.enter()
	if err != nil {
		return err
	}
	defer h.leave()
	return call(func(e *C.kvrt_error) C.kvrt_status { return f(raw, e) })
}

// ---- texts ----

// text gives the bytes of a string to one call of C. They are read, and not kept.
func text(s string) *C.char {
	if s == "" {
		return emptyText
	}
	return *(**C.char)(unsafe.Pointer(&s))
}

// textOrNull is text for arguments where "" means that there is none.
func textOrNull(s string) *C.char {
	if s == "" {
		return nil
	}
	return text(s)
}

func size(s string) C.size_t { return C.size_t(len(s)) }

// What is not NULL and has no byte.
var emptyText = (*C.char)(unsafe.Pointer(new(byte)))

// texts are those of an options struct, one after the other: see shim.h. And the handles of it, until leave.
type texts struct {
	bytes []byte
	held  []*handle
	err   error
}

// hold gives a handle, which is not closed before leave.
func (t *texts) hold(h *handle) unsafe.Pointer {
	raw, err := h.enter()
	if err != nil {
		t.err = err
		return nil
	}
	t.held = append(t.held, h)
	return raw
}

func (t *texts) leave() {
	for _, h := range t.held {
		h.leave()
	}
}

func (t *texts) add(s string) C.size_t {
	t.bytes = append(t.bytes, s...)
	return size(s)
}

// json adds a value as JSON; nil is none, also as a slice, a map or a pointer that is nil.
func (t *texts) json(v any) C.size_t {
	if none(v) {
		return 0
	}
	s, err := toJSON(v)
	if err != nil {
		t.err = err
	}
	return t.add(s)
}

// list adds strings with a NUL after each.
func (t *texts) list(all []string) C.size_t {
	whole := C.size_t(0)
	for _, s := range all {
		if strings.IndexByte(s, 0) >= 0 {
			t.err = invalid("a stop string has a NUL")
		}
		whole += t.add(s) + t.add("\x00")
	}
	return whole
}

func (t *texts) at() *C.char {
	if len(t.bytes) == 0 {
		return emptyText
	}
	return (*C.char)(unsafe.Pointer(&t.bytes[0]))
}

// none tells of a nil, with or without a type.
func none(v any) bool {
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return value.IsNil()
	}
	return false
}

// toList is toJSON of a list; nil is an empty one.
func toList(v any) (string, error) {
	if none(v) {
		return "[]", nil
	}
	return toJSON(v)
}

func toJSON(v any) (string, error) {
	made, err := json.Marshal(v)
	if err != nil {
		return "", invalid(err.Error())
	}
	return string(made), nil
}

// buffer gives the output of a call that takes (buffer, capacity, needed); most fit the first time.
func buffer[T any](f func(p unsafe.Pointer, capacity C.size_t, needed *C.size_t) error) ([]T, error) {
	out := make([]T, 512)
	for {
		var needed C.size_t
		err := f(unsafe.Pointer(&out[0]), C.size_t(len(out)), &needed)
		if err == nil {
			return out[:needed], nil
		}
		if !errors.Is(err, StatusTooSmall) {
			return nil, err
		}
		out = make([]T, needed)
	}
}
