package kvrt

// #include "shim.h"
import "C"

import (
	"context"
	"unsafe"
)

// Prefill computes the appended tokens, and opens no turn. fn (nil: none) gets PROGRESS in tokens, LOGITS as asked, and DONE. An error of fn, or the
// end of the context, ends the call; the computed part stays, and the report tells of it. It blocks until DONE.
func (s *Session) Prefill(ctx context.Context, logits Logits, fn func(Event) error) (Report, error) {
	if err := ended(ctx); err != nil {
		return Report{}, err
	}
	out := C.kvrt_report{struct_size: C.sizeof_kvrt_report}
	stop := watch(ctx, func() { s.Cancel() })
	defer stop()
	// A cancel that comes before the prefill has begun is none: events are the second look.
	err := during(fn, func() bool { return s.at().isClosed() || ctx.Err() != nil }, func(user C.uintptr_t) error {
		return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
			return C.go_session_prefill(raw, C.uint32_t(logits), user, &out, e)
		})
	})
	return toReport(&out), because(ctx, err)
}

// Generate generates, and gives fn (nil: none) the events: PROGRESS, TOKEN, LOGITS, with Reply the answer's parts, and DONE. An error of fn ends the
// call and comes out of it; the tokens so far stay. When the context ends, or the options' Cancel is fired, the generation ends within a step and the
// call is CANCELLED; the report tells of it. With SamplerHost fn calls Accept at each LOGITS. It blocks until DONE.
func (s *Session) Generate(ctx context.Context, options *GenerateOptions, fn func(Event) error) (Report, error) {
	if err := ended(ctx); err != nil {
		return Report{}, err
	}
	var own *Cancel // of this generation alone; nil: the options' own, where no context can end
	if ctx.Done() != nil {
		var unlink func()
		var err error
		if own, unlink, err = newLink(options); err != nil {
			return Report{}, err
		}
		defer own.Close()
		defer unlink()
		defer watch(ctx, own.Fire)()
	}
	out := C.kvrt_report{struct_size: C.sizeof_kvrt_report}
	// A generation in a session that is being closed ends with its next event, also where it began after the cancel of Close.
	err := during(fn, s.at().isClosed, func(user C.uintptr_t) error {
		return options.with(own, func(o *C.kvrt_generate_options, t *texts, bias *C.kvrt_token_value, stop *C.int32_t) error {
			return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
				return C.go_session_generate(raw, o, t.at(), bias, stop, user, &out, e)
			})
		})
	})
	return toReport(&out), because(ctx, err)
}

// newLink gives a cancel of one generation, which the options' Cancel fires, too, until unlink.
func newLink(options *GenerateOptions) (own *Cancel, unlink func(), err error) {
	unlink = func() {}
	if own, err = OpenCancel(); err != nil || options == nil || options.Cancel == nil {
		return own, unlink, err
	}
	if _, err := options.Cancel.at().enter(); err != nil {
		own.Close()
		return nil, nil, err
	}
	defer options.Cancel.at().leave()
	return own, options.Cancel.bell.link(own), nil
}

// Begin starts a generation, for programs with a loop of their own: it computes nothing. Next, of any session of the model, and Model.Step do.
func (s *Session) Begin(options *GenerateOptions) error {
	_, err := s.begin(options, nil)
	return err
}

// begin gives the generation's number.
func (s *Session) begin(options *GenerateOptions, cancel *Cancel) (number uint64, err error) {
	err = options.with(cancel, func(o *C.kvrt_generate_options, t *texts, bias *C.kvrt_token_value, stop *C.int32_t) error {
		return s.one(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
			status := C.go_session_begin(raw, o, t.at(), bias, stop, e)
			if status == C.KVRT_OK {
				number = s.begun.Add(1)
			}
			return status
		})
	})
	return number, err
}

// Next gives the next event of a generation, and computes as needed. timeoutMs: milliseconds to wait for one; below 0: as long as it takes; 0: it
// takes an event that is there, and never computes. NONE: nothing came in time. IDLE: the session does not generate.
//
// A failure of the generation comes once, in place of DONE. BUSY, and INVALID with detail STATE (Accept is due), change nothing.
func (s *Session) Next(timeoutMs int32) (Event, error) {
	if s == nil {
		return Event{}, s.beside(nil) // which refuses it
	}
	if !s.turn.TryLock() {
		return Event{}, busy()
	}
	defer s.turn.Unlock()
	raw, err := s.at().enter()
	if err != nil {
		return Event{}, err
	}
	defer s.at().leave() // the event's pointers hold until then
	event := C.kvrt_event{struct_size: C.sizeof_kvrt_event}
	err = call(func(e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_next((*C.kvrt_session)(raw), &event, C.int32_t(timeoutMs), e)
	})
	if err != nil {
		return Event{}, err
	}
	return toEvent(&event), nil
}

// Accept says which token follows the position of the last LOGITS event, with SamplerHost. Any goroutine, also in a callback of Generate.
func (s *Session) Accept(token int32) error {
	return s.beside(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status {
		return C.kvrt_session_accept(raw, C.int32_t(token), e)
	})
}

// Cancel ends the session's generation or prefill within one step, at its last token; without one it does nothing. Any goroutine.
func (s *Session) Cancel() error {
	return s.beside(func(raw *C.kvrt_session, e *C.kvrt_error) C.kvrt_status { return C.kvrt_session_cancel(raw, e) })
}

// with gives C the options of a generation; cancel, where it is not nil, takes the place of theirs.
func (o *GenerateOptions) with(cancel *Cancel, f func(*C.kvrt_generate_options, *texts, *C.kvrt_token_value, *C.int32_t) error) error {
	var c C.kvrt_generate_options
	var t texts
	defer t.leave()
	o.fill(&c, &t)
	if t.err != nil {
		return t.err
	}
	var bias *C.kvrt_token_value
	var stop *C.int32_t
	if o != nil {
		if len(o.LogitBias) > 0 {
			bias = (*C.kvrt_token_value)(unsafe.Pointer(&o.LogitBias[0]))
		}
		stop = ids(o.StopTokens)
		c.logit_bias_count, c.stop_token_count = C.size_t(len(o.LogitBias)), C.size_t(len(o.StopTokens))
	}
	if cancel != nil {
		c.cancel = (*C.kvrt_cancel)(t.hold(cancel.at()))
		if t.err != nil {
			return t.err
		}
	}
	return f(&c, &t, bias, stop)
}
