package kvrt

// #include "shim.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"unsafe"
)

// Event is one event of a call: its Type says which fields are filled, the others are zero. It is a copy, which the program may keep.
type Event struct {
	Type     EventType    // Ignore a type that you do not know.
	Token    int32        // TOKEN: its id.
	Reason   Reason       // DONE: why the generation ended.
	Position uint64       // TOKEN: its place in the session, from 0. LOGITS: the place of the token before the predicted one.
	Text     string       // TOKEN, DONE, FAULT, parts of a reply: whole characters in UTF-8; may be empty.
	Logprob  float64      // TOKEN: the natural log of its probability.
	Done     uint64       // PROGRESS: done so far.
	Total    uint64       // PROGRESS: of so much.
	Logits   []float32    // LOGITS: one for each token of the vocabulary.
	Report   *Report      // DONE.
	Entry    *StoreEntry  // ENTRY.
	Top      []TokenValue // TOKEN with TopLogprobs: the most probable tokens, the most probable first.
}

func toEvent(e *C.kvrt_event) Event {
	out := Event{Type: EventType(e._type), Token: int32(e.token), Reason: Reason(e.reason), Position: uint64(e.position), Logprob: float64(e.logprob),
		Done: uint64(e.done), Total: uint64(e.total), Text: string(unsafe.Slice((*byte)(unsafe.Pointer(e.text)), e.text_size))}
	if e.logits != nil {
		out.Logits = append(out.Logits, unsafe.Slice((*float32)(unsafe.Pointer(e.logits)), e.logits_count)...)
	}
	if e.report != nil {
		report := toReport(e.report)
		out.Report = &report
	}
	if e.entry != nil {
		entry := toStoreEntry(e.entry)
		out.Entry = &entry
	}
	if e.top != nil {
		out.Top = append(out.Top, unsafe.Slice((*TokenValue)(unsafe.Pointer(e.top)), e.top_count)...)
	}
	return out
}

// callback is what the library calls during one call.
type callback struct {
	fn       func(Event) error // nil: none
	stop     func() bool       // looked at before each event
	err      error             // what fn returned
	panicked bool
	value    any // of that panic
}

// during makes a call of C that takes a callback; user is for C. fn may be nil. stop ends the call: where it is true before an event comes, fn does not get that.
func during(fn func(Event) error, stop func() bool, f func(user C.uintptr_t) error) error {
	c := &callback{fn: fn, stop: stop}
	user := cgo.NewHandle(c)
	defer user.Delete()
	err := f(C.uintptr_t(user))
	if c.panicked {
		panic(c.value)
	}
	if c.err != nil {
		return c.err
	}
	return err
}

// duringContext is during for calls that only their callback can end: the context is looked at with each event.
func duringContext(ctx context.Context, fn func(Event) error, f func(user C.uintptr_t) error) error {
	if err := ended(ctx); err != nil {
		return err
	}
	return because(ctx, during(fn, func() bool { return ctx.Err() != nil }, f))
}

//export kvrtGoEvent
func kvrtGoEvent(user C.uintptr_t, e *C.kvrt_event) (stop C.int32_t) {
	c := cgo.Handle(user).Value().(*callback)
	protect(func() { stop = c.event(e) }, func(value any) { c.panicked, c.value, stop = true, value, 1 })
	return stop
}

func (c *callback) event(e *C.kvrt_event) C.int32_t {
	if c.err != nil || c.panicked || c.stop() {
		return 1
	}
	if c.fn != nil {
		if c.err = c.fn(toEvent(e)); c.err != nil {
			return 1
		}
	}
	return 0
}

// protect keeps a panic of f from passing through C, and tells it. The end of the goroutine cannot be kept from that, so it ends the program.
func protect(f func(), panicked func(any)) {
	through := false
	defer func() {
		if !through {
			die("kvrt: a callback ended its goroutine (runtime.Goexit, FailNow)")
		}
	}()
	func() {
		returned := false
		defer func() {
			if !returned { // recover gives nil for panic(nil), too
				panicked(recover())
			}
		}()
		f()
		returned = true
	}()
	through = true
}

// die ends the program as a panic that nobody recovers.
func die(value any) {
	go panic(value)
	select {}
}

// ---- callbacks that are kept: a panic in them has no call that it could come out of ----

//export kvrtGoLog
func kvrtGoLog(user C.uintptr_t, level C.int32_t, text *C.char, size C.size_t) {
	log := cgo.Handle(user).Value().(func(LogLevel, string))
	protect(func() { log(LogLevel(level), string(unsafe.Slice((*byte)(unsafe.Pointer(text)), size))) }, die)
}

//export kvrtGoWake
func kvrtGoWake(user C.uintptr_t) {
	protect(cgo.Handle(user).Value().(func()), die)
}

//export kvrtGoFree
func kvrtGoFree(user C.uintptr_t) { cgo.Handle(user).Delete() }

// keep gives a callback that C keeps until it calls kvrtGoFree; drop is for a call that failed, which does not. 0: no callback.
func keep(callback any, some bool) (user C.uintptr_t, drop func()) {
	if !some {
		return 0, func() {}
	}
	h := cgo.NewHandle(callback)
	return C.uintptr_t(h), h.Delete
}
