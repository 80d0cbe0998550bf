package kvrt

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"sync"
)

// Error is the failure of a call. It is a value of the caller's: no thread's state is involved, so goroutines may move between threads.
type Error struct {
	Status  Status // The class, which says what to do next.
	Detail  Detail // A finer reason; DetailNone: the status says it all.
	OSCode  int32  // errno, or SQLite's extended code; 0: none.
	Message string // What failed, where, what was expected and found.
	cause   error  // The context's error, where a context ended the call.
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// Is makes errors.Is(err, StatusBusy) and errors.Is(err, DetailNameTaken) work.
func (e *Error) Is(target error) bool {
	return target == e.Status || target == e.Detail && e.Detail != DetailNone
}

// Unwrap gives the error of the context that ended the call: context.Canceled or context.DeadlineExceeded; nil: none did.
func (e *Error) Unwrap() error { return e.cause }

// Error makes a status the sentinel of its errors, for errors.Is. The library names it, which may know more of them than this package.
func (v Status) Error() string { return "kvrt: " + C.GoString(C.kvrt_status_name(C.kvrt_status(v))) }

// Error makes a detail the sentinel of its errors, for errors.Is.
func (v Detail) Error() string { return "kvrt: " + v.String() }

// The structs that calls write their failures into: 1 KiB each, so they are used again.
var failures = sync.Pool{New: func() any { return &C.kvrt_error{struct_size: C.sizeof_kvrt_error} }}

// call makes one call of C, which gets an error struct of its own.
func call(f func(e *C.kvrt_error) C.kvrt_status) error {
	e := failures.Get().(*C.kvrt_error)
	defer failures.Put(e)
	status := f(e)
	if status == C.KVRT_OK {
		return nil
	}
	return &Error{Status: Status(status), Detail: Detail(e.detail), OSCode: int32(e.os_code), Message: chars(e.message[:])}
}

func invalid(message string) error { return &Error{Status: StatusInvalid, Message: "kvrt: " + message} }

// ended gives the error of a call whose context has ended, or is nil; nil: it goes on.
func ended(ctx context.Context) error {
	if ctx == nil {
		return invalid("the context is nil: context.Background() is one that does not end")
	}
	if cause := ctx.Err(); cause != nil {
		return &Error{Status: StatusCancelled, Message: endedBy(cause), cause: cause}
	}
	return nil
}

func endedBy(cause error) string { return cause.Error() + ": kvrt ended the call" }

// because puts the context's error in the place of that of a call which it ended, which tells of a cancel alone.
func because(ctx context.Context, err error) error {
	var e *Error
	if ctx.Err() == nil || !errors.As(err, &e) || e.Status != StatusCancelled || e.cause != nil {
		return err
	}
	caused := *e
	caused.cause = ctx.Err()
	caused.Message = endedBy(caused.cause)
	return &caused
}
