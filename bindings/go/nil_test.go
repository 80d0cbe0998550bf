package kvrt

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// closers are handles that nobody opened.
func closers() []interface{ Close() error } {
	return []interface{ Close() error }{(*Session)(nil), (*Model)(nil), (*Store)(nil), (*Runtime)(nil), (*Cancel)(nil), (*Stream)(nil),
		&Session{}, &Model{}, &Store{}, &Runtime{}, &Cancel{}, &Stream{}}
}

func TestCloseOfNil(t *testing.T) {
	for _, c := range closers() {
		must(t, c.Close())
		must(t, c.Close())
	}
	inside := &struct { // no finalizer may be set within an allocation
		number int
		store  Store
	}{}
	must(t, inside.store.Close())
}

// refuses wants INVALID, and what was wrong.
func refuses(t *testing.T, what string, err error) {
	t.Helper()
	fails(t, err, StatusInvalid)
	check(t, strings.Contains(err.Error(), what), err, "lacks", what)
}

func TestCallsOfNil(t *testing.T) {
	for _, s := range []*Session{nil, {}} {
		what := "the session is nil, or was not opened"
		_, err := s.Generate(background, nil, nil)
		refuses(t, what, err)
		_, err = s.Prefill(background, LogitsNone, nil)
		refuses(t, what, err)
		_, err = s.Stream(background, nil)
		refuses(t, what, err)
		_, err = s.Next(0)
		refuses(t, what, err)
		refuses(t, what, s.Begin(nil))
		refuses(t, what, s.Append(prompt))
		refuses(t, what, s.Cancel())
		_, err = s.AppendMessage(Message{"user", "Hi"})
		refuses(t, what, err)
		_, err = s.Fork(nil)
		refuses(t, what, err)
		_, err = s.Info()
		refuses(t, what, err)
		_, err = s.Checkpoint("ann", nil)
		refuses(t, what, err)
	}
	r := newRig(t)
	for _, s := range []*Store{nil, {}} {
		what := "the store is nil, or was not opened"
		_, _, err := r.model.Resume(background, s, "ann", nil, nil)
		refuses(t, what, err)
		refuses(t, what, s.List(background, func(StoreEntry) error { return nil }))
		_, err = s.Retain()
		refuses(t, what, err)
	}
	_, err := r.model.OpenSession(&SessionOptions{Store: &Store{}})
	refuses(t, "the store is nil", err)
	for _, m := range []*Model{nil, {}} {
		_, err = m.OpenSession(nil)
		refuses(t, "the model is nil", err)
		_, err = m.ApplyTemplate(nil, nil)
		refuses(t, "the model is nil", err)
		_, _, err = m.Resume(background, r.store, "ann", nil, nil)
		refuses(t, "the model is nil", err)
	}
	for _, rt := range []*Runtime{nil, {}} {
		_, err = rt.OpenModel(background, modelPath, nil, nil)
		refuses(t, "the runtime is nil", err)
		_, err = rt.OpenStore(r.dir+"/none", nil)
		refuses(t, "the runtime is nil", err)
	}
	for _, c := range []*Cancel{nil, {}} {
		c.Fire()
		check(t, !c.Fired())
		_, err = c.Retain()
		refuses(t, "the cancel is nil", err)
	}
	for _, st := range []*Stream{nil, {}} {
		_, err = st.Next()
		refuses(t, "the stream is nil", err)
		equal(t, st.Report(), Report{})
	}
}

func TestNilArguments(t *testing.T) {
	r := newRig(t)
	s := r.open(prompt...)
	var none context.Context
	what := "the context is nil"
	_, err := s.Generate(none, nil, nil)
	refuses(t, what, err)
	_, err = s.Prefill(none, LogitsNone, nil)
	refuses(t, what, err)
	_, err = s.Stream(none, nil)
	refuses(t, what, err)
	_, err = r.runtime.OpenModel(none, modelPath, nil, nil)
	refuses(t, what, err)
	_, _, err = r.model.Resume(none, r.store, "ann", nil, nil)
	refuses(t, what, err)
	_, err = r.store.GC(none, nil)
	refuses(t, what, err)
	refuses(t, what, r.store.Verify(none, nil))
	_, err = r.runtime.RepairStore(none, r.dir+"/none", nil)
	refuses(t, what, err)
	refuses(t, "fn is nil", r.store.List(background, nil))
	refuses(t, "fn is nil", r.store.ListDomain(background, "", nil))
	ending, stop := context.WithCancel(background)
	defer stop()
	for _, ctx := range []context.Context{background, ending} { // a cancel that nobody opened is not one that never fires
		_, err = s.Generate(ctx, &GenerateOptions{Cancel: &Cancel{}, MaxTokens: 2}, nil)
		refuses(t, "the cancel is nil, or was not opened", err)
		_, err = s.Stream(ctx, &GenerateOptions{Cancel: &Cancel{}, MaxTokens: 2})
		refuses(t, "the cancel is nil, or was not opened", err)
	}
	_, err = s.AppendMessage(nil)
	fails(t, err, StatusInvalid)
	equal(t, len(r.answer(s, 2)), 2)
}

// A nil of any type means none.
func TestTypedNil(t *testing.T) {
	r := newRig(t)
	source := "{{ tools is defined and tools }}{{ documents is defined and documents }}{{ x is defined }}{{ messages | length }}"
	want, err := ApplyTemplate([]Message{}, &TemplateOptions{Source: source})
	must(t, err)
	type tool struct{ Name string }
	for _, o := range []TemplateOptions{{Tools: []tool(nil), Documents: []any(nil), Variables: map[string]any(nil)},
		{Tools: json.RawMessage(nil), Documents: (*[]tool)(nil), Variables: (*tool)(nil)}} {
		o.Source = source
		for _, messages := range []any{nil, []Message(nil), json.RawMessage(nil)} {
			got, err := ApplyTemplate(messages, &o)
			must(t, err)
			equal(t, got, want)
		}
		s, err := r.model.OpenSession(&SessionOptions{Store: r.store, Tools: o.Tools, Documents: o.Documents, Variables: o.Variables})
		must(t, err)
		_, err = s.SetMessages([]Message{{"user", "Hi"}})
		must(t, err)
		_, err = s.Generate(background, &GenerateOptions{MaxTokens: 2}, nil)
		must(t, err)
		for _, messages := range []any{[]Message(nil), nil} {
			_, err = s.SetMessages(messages)
			must(t, err)
			info, err := s.Info()
			must(t, err)
			equal(t, info.Messages, uint64(0))
		}
		s.Close()
	}
	saved, err := r.model.OpenSession(&SessionOptions{Store: r.store, Variables: map[string]any{"x": 1}})
	must(t, err)
	defer saved.Close()
	must(t, saved.Append(prompt))
	_, err = saved.Checkpoint("ann", nil)
	must(t, err)
	back, _, err := r.model.Resume(background, r.store, "ann", &SessionOptions{Variables: map[string]any(nil)}, nil) // stay as they were saved
	must(t, err)
	defer back.Close()
	_, err = back.Checkpoint("bob", nil)
	must(t, err)
	shown, err := r.store.Show("", "bob")
	must(t, err)
	check(t, strings.Contains(strings.ReplaceAll(string(shown), " ", ""), `"x":1`), string(shown))
}

// The error of a call that a context ended says so, and names no function of C.
func TestErrorNamesTheContext(t *testing.T) {
	r := newRig(t)
	s := r.open(prompt...)
	slow := func(Event) error { time.Sleep(time.Millisecond); return nil }
	says := func(err error, cause error) {
		t.Helper()
		fails(t, err, StatusCancelled, cause)
		check(t, strings.HasPrefix(err.Error(), cause.Error()) && !strings.Contains(err.Error(), "kvrt_"), err)
	}
	short := func() context.Context {
		ctx, stop := context.WithTimeout(background, 20*time.Millisecond)
		t.Cleanup(stop)
		return ctx
	}
	ctx := short()
	_, err := s.Generate(ctx, endless, slow)
	says(err, context.DeadlineExceeded)
	_, err = s.Generate(ctx, endless, slow) // it had ended before
	says(err, context.DeadlineExceeded)
	stream, err := s.Stream(short(), endless)
	must(t, err)
	defer stream.Close()
	for err == nil {
		_, err = stream.Next()
		time.Sleep(time.Millisecond)
	}
	says(err, context.DeadlineExceeded)
	must(t, s.Append(many(4, 40)))
	stopped, stop := context.WithCancel(background)
	_, err = s.Prefill(stopped, LogitsAll, func(Event) error { stop(); return nil })
	says(err, context.Canceled)
	stopped, stop = context.WithCancel(background)
	_, err = r.runtime.OpenModel(stopped, modelPath, nil, func(Event) error { stop(); return nil })
	says(err, context.Canceled)
}
