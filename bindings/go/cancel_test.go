package kvrt

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

var endless = &GenerateOptions{IgnoreEOS: true}

// With a context or a cancel, in a callback and by Next, before, meanwhile and by time: the generation ends, and no goroutine stays.
func TestContextEndsGenerate(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	s := r.open(prompt...)
	ctx, cancel := context.WithCancel(background)
	n := 0
	report, err := s.Generate(ctx, endless, func(e Event) error {
		if n++; n == 4 {
			go cancel() // another goroutine
		}
		if n >= 4 {
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
	fails(t, err, StatusCancelled, context.Canceled)
	check(t, report.Reason == ReasonCancelled && report.Generated < 100, report)
	equal(t, uint64(len(tokensOf(t, s))), 4+report.Generated)

	ctx, cancel = context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	_, err = s.Generate(ctx, endless, func(e Event) error { time.Sleep(time.Millisecond); return nil })
	fails(t, err, StatusCancelled, context.DeadlineExceeded)

	before, err := r.model.Metrics()
	must(t, err)
	_, err = s.Generate(ctx, endless, nil) // ended before it begins: nothing is computed
	fails(t, err, StatusCancelled, context.DeadlineExceeded)
	_, err = s.Stream(ctx, endless)
	fails(t, err, context.DeadlineExceeded)
	_, err = s.Prefill(ctx, LogitsNone, nil)
	fails(t, err, context.DeadlineExceeded)
	_, err = r.runtime.OpenModel(ctx, modelPath, nil, nil)
	fails(t, err, context.DeadlineExceeded)
	_, _, err = r.model.Resume(ctx, r.store, "ann", nil, nil)
	fails(t, err, context.DeadlineExceeded)
	after, err := r.model.Metrics()
	must(t, err)
	equal(t, after.Steps, before.Steps)
	equal(t, len(r.answer(s, 3)), 3) // the session goes on
}

func TestContextEndsStream(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	s := r.open(prompt...)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	stream, err := s.Stream(ctx, endless)
	must(t, err)
	defer stream.Close()
	given := 0
	for err == nil {
		var e Event
		if e, err = stream.Next(); e.Type == EventToken {
			if given++; given == 3 {
				cancel()
			}
		}
	}
	fails(t, err, StatusCancelled, context.Canceled)
	equal(t, []any{stream.Report().Reason, len(tokensOf(t, s))}, []any{ReasonCancelled, 4 + given})
	_, again := stream.Next()
	equal(t, again, err)

	stream, err = s.Stream(background, endless) // Close alone
	must(t, err)
	_, err = stream.Next()
	must(t, err)
	_, err = s.Generate(background, endless, nil) // refused, and no harm to the stream
	fails(t, err, StatusBusy)
	_, err = stream.Next()
	must(t, err)
	must(t, stream.Close())
	must(t, stream.Close())
	_, err = stream.Next()
	equal(t, err, io.EOF)
	equal(t, stream.Report().Reason, ReasonCancelled)

	old, err := s.Stream(background, &GenerateOptions{MaxTokens: 2, IgnoreEOS: true}) // another takes its DONE, and begins anew
	must(t, err)
	for e := (Event{}); e.Type != EventDone; {
		e, err = s.Next(-1)
		must(t, err)
	}
	must(t, s.Begin(&GenerateOptions{MaxTokens: 2, IgnoreEOS: true}))
	must(t, old.Close())
	e, err := s.Next(-1)
	must(t, err)
	check(t, e.Type != EventIdle, e)
}

// A generation that nobody takes any more is ended by a finalizer.
func TestDroppedStream(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	s := r.open(prompt...)
	func() {
		stream, err := s.Stream(background, endless)
		must(t, err)
		_, err = stream.Next()
		must(t, err)
	}()
	soon(t, "the dropped generation ends", func() bool {
		collect()
		info, err := s.Info()
		must(t, err)
		return info.State == StateIdle
	})
}

func TestCancelHandle(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	c, err := OpenCancel()
	must(t, err)
	other, err := c.Retain()
	must(t, err)
	ctx, stop := context.WithCancel(background) // beside a context that does not end
	defer stop()
	for _, where := range []context.Context{background, ctx} {
		s := r.open(prompt...)
		n := 0
		report, err := s.Generate(where, &GenerateOptions{IgnoreEOS: true, Cancel: c}, func(Event) error {
			if n++; n >= 3 {
				other.Fire()
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		fails(t, err, StatusCancelled)
		check(t, !errors.Is(err, context.Canceled) && report.Reason == ReasonCancelled, err, report)
		check(t, report.Generated < 100, report)
	}
	check(t, c.Fired() && other.Fired())
	s := r.open(prompt...)
	must(t, s.Begin(&GenerateOptions{Cancel: c})) // fired before
	e, err := s.Next(-1)
	must(t, err)
	equal(t, []any{e.Type, e.Reason}, []any{EventDone, ReasonCancelled})
	stream, err := s.Stream(background, &GenerateOptions{Cancel: other})
	must(t, err)
	for err == nil {
		e, err = stream.Next()
	}
	equal(t, err, io.EOF)
	equal(t, stream.Report().Reason, ReasonCancelled)
	third, err := OpenCancel() // while nobody calls Next
	must(t, err)
	stream, err = s.Stream(ctx, &GenerateOptions{IgnoreEOS: true, Cancel: third})
	must(t, err)
	_, err = stream.Next()
	must(t, err)
	third.Fire()
	for runnable := uint32(1); runnable > 0; {
		runnable, err = r.model.Step(10)
		must(t, err)
	}
	unread := 0
	for ; err == nil; unread++ {
		_, err = stream.Next()
	}
	check(t, err == io.EOF && unread < 10, err, unread)
	check(t, len(third.bell.linked) == 0, third.bell.linked)
	third.Close()
	c.Close()
	c.Close()
	c.Fire()
	check(t, !c.Fired() && other.Fired())
	other.Close()
	fails(t, s.Begin(&GenerateOptions{Cancel: c}), StatusInvalid)
	_, err = s.Stream(background, &GenerateOptions{Cancel: c})
	fails(t, err, StatusInvalid)
	_, err = c.Retain()
	fails(t, err, StatusInvalid)
}

func TestCancelFromAnotherGoroutine(t *testing.T) {
	r := rigWith(t, &ModelOptions{PrefillChunk: 8})
	s := r.open(many(4, 100)...)
	must(t, s.Cancel()) // before: a no-op
	began, done := make(chan struct{}), make(chan struct{})
	go func() {
		<-began
		s.Cancel()
		close(done)
	}()
	_, err := s.Prefill(background, LogitsNone, func(Event) error {
		select {
		case <-began:
		default:
			close(began)
		}
		<-done
		return nil
	})
	fails(t, err, StatusCancelled)
	info, err := s.Info()
	must(t, err)
	check(t, info.KVTokens < 100, info)

	ctx, cancel := context.WithCancel(background)
	_, err = s.Prefill(ctx, LogitsNone, func(Event) error { cancel(); return nil })
	fails(t, err, StatusCancelled, context.Canceled)
}
