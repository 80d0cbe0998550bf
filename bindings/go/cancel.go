package kvrt

// #include "shim.h"
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// Cancel ends generations from outside: all that were begun with it (GenerateOptions.Cancel), of any sessions and models. It fires once, for good.
// Where there is a context, it does that by itself; a Cancel is for what many generations share.
type Cancel struct {
	handle handle
	bell   *bell
}

// bell fires other cancels with one, which all its owners share: those of generations that have one of their own beside it.
type bell struct {
	mu     sync.Mutex
	rung   bool
	linked map[*Cancel]bool
}

// link fires c with the bell, from now on until unlink.
func (b *bell) link(c *Cancel) (unlink func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung {
		c.Fire()
		return func() {}
	}
	b.linked[c] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.linked, c)
	}
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = true
	for c := range b.linked {
		c.Fire()
	}
}

func newCancel(raw unsafe.Pointer, b *bell) *Cancel {
	c := &Cancel{handle{raw: raw, kind: "cancel", release: func(p unsafe.Pointer) { C.kvrt_cancel_release((*C.kvrt_cancel)(p)) }}, b}
	runtime.SetFinalizer(c, (*Cancel).Close)
	return c
}

// OpenCancel makes a cancel that is not fired. It needs no runtime and no model. The caller closes it.
func OpenCancel() (*Cancel, error) {
	if err := loaded(); err != nil {
		return nil, err
	}
	var out *C.kvrt_cancel
	if err := call(func(e *C.kvrt_error) C.kvrt_status { return C.kvrt_cancel_open(&out, e) }); err != nil {
		return nil, err
	}
	return newCancel(unsafe.Pointer(out), &bell{linked: map[*Cancel]bool{}}), nil
}

// at gives the handle; of a nil cancel, or one that was not opened, one that refuses every call.
func (c *Cancel) at() *handle {
	if c == nil || c.handle.raw == nil {
		return &handle{kind: "cancel"}
	}
	return &c.handle
}

// Retain gives another owner of the same cancel, which has a Close of its own.
func (c *Cancel) Retain() (*Cancel, error) {
	raw, err := c.at().enter()
	if err != nil {
		return nil, err
	}
	defer c.at().leave()
	C.kvrt_cancel_retain((*C.kvrt_cancel)(raw))
	return newCancel(raw, c.bell), nil
}

// Fire ends each generation that was begun with it, and each that is begun with it later. Any goroutine, also in callbacks; it waits for no step.
// A closed cancel cannot be fired.
func (c *Cancel) Fire() {
	raw, err := c.at().enter()
	if err != nil {
		return
	}
	defer c.at().leave()
	C.kvrt_cancel_fire((*C.kvrt_cancel)(raw))
	c.bell.ring()
}

// Fired tells whether it was fired; false where it is closed.
func (c *Cancel) Fired() bool {
	raw, err := c.at().enter()
	if err != nil {
		return false
	}
	defer c.at().leave()
	return C.kvrt_cancel_fired((*C.kvrt_cancel)(raw)) != 0
}

// Close takes this owner away. Generations that have it keep it. It never fails.
func (c *Cancel) Close() error {
	if c.at().close(nil) {
		runtime.SetFinalizer(c, nil)
	}
	return nil
}

// watch calls fire when the context ends. The caller calls stop, after which the goroutine is gone.
func watch(ctx context.Context, fire func()) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	if ctx.Err() != nil {
		fire()
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			fire()
		case <-quit:
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
