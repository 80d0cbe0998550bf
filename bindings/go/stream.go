package kvrt

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"
)

// Stream is a generation whose events the program takes one by one:
//
//	stream, err := session.Stream(ctx, &kvrt.GenerateOptions{MaxTokens: 64})
//	if err != nil { ... }
//	defer stream.Close()
//	for {
//		event, err := stream.Next()
//		if err == io.EOF { break }
//		if err != nil { ... }
//		fmt.Print(event.Text)
//	}
//
// Each call may come from another goroutine; they take turns. Nothing runs between the calls.
type Stream struct {
	session *Session
	ctx     context.Context
	cancel  *Cancel // of this generation alone
	unlink  func()  // from GenerateOptions.Cancel
	number  uint64

	mu     sync.Mutex
	over   error // what Next gives from now on
	report Report
}

// Stream begins a generation. The context, or the options' Cancel, ends it; so does Close.
func (s *Session) Stream(ctx context.Context, options *GenerateOptions) (*Stream, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	own, unlink, err := newLink(options)
	if err != nil {
		return nil, err
	}
	number, err := s.begin(options, own)
	if err != nil {
		unlink()
		own.Close()
		return nil, err
	}
	stream := &Stream{session: s, ctx: ctx, cancel: own, unlink: unlink, number: number}
	runtime.SetFinalizer(stream, func(stream *Stream) { go stream.Close() })
	return stream, nil
}

func (st *Stream) begun() bool { return st != nil && st.session != nil }

// Next gives the next event, and computes as needed. The last one is DONE; then comes io.EOF, or CANCELLED where the context ended the generation.
// A failure ends the generation, but for one
// that changes nothing, such as memory that was short: Next goes on, Close ends it. With SamplerHost call Session.Accept after each LOGITS.
func (st *Stream) Next() (Event, error) {
	if !st.begun() {
		return Event{}, invalid("the stream is nil, or was not begun")
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over != nil {
		return Event{}, st.over
	}
	defer watch(st.ctx, st.cancel.Fire)()
	return st.pull()
}

// pull is Next with the lock held.
func (st *Stream) pull() (Event, error) {
	if st.session.begun.Load() != st.number { // somebody else took this generation's DONE
		return Event{}, st.end(io.EOF)
	}
	event, err := st.session.Next(-1)
	switch {
	case errors.Is(err, StatusBusy) || errors.Is(err, DetailState):
		return Event{}, err
	case err != nil:
		if info, unknown := st.session.Info(); unknown == nil && info.State == StateGenerating { // memory was short for a moment: Next goes on
			return Event{}, err
		}
		return Event{}, st.end(err)
	case event.Type == EventIdle:
		return Event{}, st.end(io.EOF)
	case event.Type == EventDone:
		st.report = *event.Report
		over := error(io.EOF)
		if event.Reason == ReasonCancelled {
			if err := ended(st.ctx); err != nil {
				over = err
			}
		}
		st.end(over)
	}
	return event, nil
}

func (st *Stream) end(over error) error {
	st.over = over
	st.unlink()
	st.cancel.Close()
	runtime.SetFinalizer(st, nil)
	return over
}

// Close ends the generation, within the step that it is in; Next then gives io.EOF. It may be called more than once, beside Next, and after the
// session's Close. It never fails.
func (st *Stream) Close() error {
	if !st.begun() {
		return nil
	}
	st.cancel.Fire()
	st.mu.Lock()
	defer st.mu.Unlock()
	for tries := 0; st.over == nil; tries++ {
		_, err := st.pull()
		if st.over != nil && err != nil {
			st.over = io.EOF // the generation failed, or the session is closed
		}
		if err == nil || st.over != nil {
			continue
		}
		// Another goroutine is inside a call on the session, for a moment: as it generates, that call is refused. Longer: the generation is over.
		if tries > 1000 {
			st.end(io.EOF)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// Report is the usage of the generation: filled at DONE, and after Close; a failed generation has none.
func (st *Stream) Report() Report {
	if !st.begun() {
		return Report{}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.report
}
