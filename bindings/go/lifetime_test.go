package kvrt

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

// collect lets finalizers run.
func collect() {
	runtime.GC()
	time.Sleep(2 * time.Millisecond)
}

func TestClosingInAnyOrder(t *testing.T) {
	dir := t.TempDir()
	for order := 0; order < 24; order++ {
		rt, err := OpenRuntime(&RuntimeOptions{Threads: 1})
		must(t, err)
		m, err := rt.OpenModel(background, modelPath, nil, nil)
		must(t, err)
		st, err := rt.OpenStore(dir+"/any", nil)
		must(t, err)
		s, err := m.OpenSession(&SessionOptions{Store: st})
		must(t, err)
		must(t, s.Append(prompt))
		handles := []interface{ Close() error }{rt, m, st, s}
		open := true
		for left, k := handles, order; len(left) > 0; {
			at := k % len(left)
			k /= len(left)
			must(t, left[at].Close())
			must(t, left[at].Close())
			open = open && left[at] != handles[3]
			left = append(append([]interface{ Close() error }{}, left[:at]...), left[at+1:]...)
			if open {
				_, err = s.Generate(background, &GenerateOptions{MaxTokens: 2, IgnoreEOS: true}, nil)
				must(t, err)
				_, err = s.Checkpoint("o", &SaveOptions{Overwrite: true})
				must(t, err)
			}
		}
		for _, f := range []func() error{
			func() error { _, err := rt.Info(); return err }, func() error { _, err := m.Info(); return err }, func() error { _, err := st.Info(); return err },
			func() error { _, err := s.Info(); return err }, func() error { return s.Append(prompt) }, func() error { _, err := s.Next(0); return err },
			func() error { _, err := m.OpenSession(nil); return err }, func() error { _, _, err := m.Resume(background, st, "o", nil, nil); return err },
			func() error { _, err := rt.Retain(); return err }, func() error { _, err := m.Retain(); return err }, func() error { _, err := st.Retain(); return err },
		} {
			fails(t, f(), StatusInvalid)
		}
	}
}

func TestRetain(t *testing.T) {
	r := newRig(t)
	rt, err := r.runtime.Retain()
	must(t, err)
	m, err := r.model.Retain()
	must(t, err)
	st, err := r.store.Retain()
	must(t, err)
	r.runtime.Close()
	r.model.Close()
	r.store.Close()
	_, err = rt.Info()
	must(t, err)
	s, err := m.OpenSession(&SessionOptions{Store: st})
	must(t, err)
	for _, h := range []interface{ Close() error }{s, st, m, rt} {
		must(t, h.Close())
	}
}

// Finalizers close what is dropped: not during a call with it, and also after the runtime.
func TestDroppedHandles(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	for i := 0; i < 10; i++ {
		_, err := r.model.OpenSession(&SessionOptions{Store: r.store})
		must(t, err)
	}
	soon(t, "dropped sessions are closed", func() bool { collect(); return sessions(t, r.model) == 0 })

	func() {
		rt, err := OpenRuntime(&RuntimeOptions{Threads: 1})
		must(t, err)
		m, err := rt.OpenModel(background, modelPath, nil, nil)
		must(t, err)
		s, err := m.OpenSession(nil)
		must(t, err)
		must(t, s.Append(prompt))
		rt.Close()
		rt, m = nil, nil
		n := 0
		_, err = s.Generate(background, &GenerateOptions{MaxTokens: 20, IgnoreEOS: true}, func(Event) error { // the last use of s
			n++
			collect()
			return nil
		})
		must(t, err)
		check(t, n > 20)
	}()
	soon(t, "their finalizers have run", func() bool { collect(); return true })
	equal(t, len(r.answer(r.open(prompt...), 2)), 2)
}

func TestCloseBesideCalls(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	for i := 0; i < 20; i++ {
		s, err := r.model.OpenSession(nil)
		must(t, err)
		must(t, s.Append(prompt))
		running := make(chan struct{})
		var once sync.Once
		var wait sync.WaitGroup
		wait.Add(2)
		go func() {
			defer wait.Done()
			_, err := s.Generate(background, endless, func(Event) error { once.Do(func() { close(running) }); time.Sleep(time.Millisecond); return nil })
			if err := wrong(err, StatusCancelled); err != nil {
				t.Error(err)
			}
		}()
		go func() { // reads, to the end
			defer wait.Done()
			for {
				if _, err := s.Info(); err != nil {
					if err := wrong(err, StatusInvalid); err != nil {
						t.Error(err)
					}
					return
				}
			}
		}()
		<-running
		s.Close()
		wait.Wait()
		equal(t, sessions(t, r.model), uint64(0))
	}
	for i := 0; i < 200; i++ { // wherever the call is just then
		s, err := r.model.OpenSession(nil)
		must(t, err)
		must(t, s.Append(prompt))
		done := make(chan error)
		go func() {
			_, err := s.Generate(background, endless, func(Event) error { time.Sleep(time.Millisecond); return nil })
			done <- err
		}()
		time.Sleep(time.Duration(i) * time.Microsecond)
		s.Close()
		check(t, <-done != nil)
	}
	equal(t, sessions(t, r.model), uint64(0))
}

func TestCloseInItsOwnCallback(t *testing.T) {
	r := newRig(t)
	s := r.open(prompt...)
	n := 0
	_, err := s.Generate(background, endless, func(Event) error { n++; return s.Close() })
	fails(t, err, StatusCancelled)
	equal(t, n, 1)
	equal(t, sessions(t, r.model), uint64(0))
}

func TestOneCallAtATime(t *testing.T) {
	r := newRig(t)
	s := r.open(many(4, 64)...)
	calls := 0
	_, err := s.Prefill(background, LogitsNone, func(Event) error {
		calls++
		if err := wrong(s.Append(prompt), DetailReentrant); err != nil {
			return err
		}
		done := make(chan error)
		go func() { done <- s.Append(prompt) }()
		if err := wrong(<-done, DetailConcurrent); err != nil {
			return err
		}
		if _, err := s.Next(0); wrong(err, StatusBusy) != nil {
			return wrong(err, StatusBusy)
		}
		tokens, err := s.Tokens() // reads go beside it
		if err != nil {
			return err
		}
		return unequal(len(tokens), 64)
	})
	must(t, err)
	check(t, calls > 0)

	// Events of Next are copied before another call can take them away.
	must(t, s.Begin(endless))
	var wait sync.WaitGroup
	for i := 0; i < 4; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for j := 0; j < 200; j++ {
				if _, err := s.Next(-1); err != nil && wrong(err, StatusBusy) != nil {
					t.Error(err)
				}
				if err := s.Truncate(1); err != nil && wrong(err, StatusBusy, StatusInvalid) != nil {
					t.Error(err)
				}
			}
		}()
	}
	wait.Wait()
}

func TestManySessionsAtOnce(t *testing.T) {
	r := newRig(t)
	want := r.answer(r.open(prompt...), 40)
	var wait sync.WaitGroup
	for i := 0; i < 6; i++ {
		s := r.open(prompt...)
		wait.Add(1)
		go func() {
			defer wait.Done()
			if _, err := s.Generate(background, &GenerateOptions{MaxTokens: 40, IgnoreEOS: true}, nil); err != nil {
				t.Error(err)
			}
			if got, err := s.Tokens(); err != nil || !equalTokens(got[4:], want) {
				t.Error(err, got)
			}
		}()
	}
	wait.Wait()
}

func resident(t *testing.T) (pages uint64) {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	_, err = fmt.Sscan(strings.Fields(string(text))[1], &pages)
	must(t, err)
	return pages * uint64(os.Getpagesize())
}

func TestAThousandSessions(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	run := func(count int) {
		for i := 0; i < count; i++ {
			s, err := r.model.OpenSession(&SessionOptions{Store: r.store, Wake: func() {}})
			must(t, err)
			must(t, s.Append(prompt))
			r.answer(s, 2)
			if i%2 == 0 { // the others are dropped
				s.Close()
			}
			if i%50 == 49 {
				soon(t, "sessions are closed", func() bool { collect(); return sessions(t, r.model) < 2 })
			}
		}
	}
	run(300)
	before := resident(t)
	run(1000)
	after := resident(t)
	check(t, after < before+4<<20, "grew by", int64(after-before), "bytes")
}

func TestErrorTextUnderEightThreads(t *testing.T) {
	r := newRig(t)
	var wait sync.WaitGroup
	for i := 0; i < 8; i++ {
		wait.Add(1)
		go func(i int) {
			defer wait.Done()
			for j := 0; j < 300; j++ {
				name := fmt.Sprintf("nobody-%d-%d.", i, j)
				_, err := r.runtime.OpenModel(background, name, nil, nil)
				e, ok := err.(*Error)
				if !ok || e.Status != StatusNotFound || !strings.Contains(e.Message, name) || e.OSCode != 2 {
					t.Errorf("%s: %#v", name, err)
				}
				runtime.Gosched()
			}
		}(i)
	}
	wait.Wait()
}

// What a context needs is gone when the call returns, also where it never ends.
func TestNoGoroutineOutlivesItsCall(t *testing.T) {
	r := newRig(t)
	s := r.open(prompt...)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	shared, err := OpenCancel()
	must(t, err)
	defer shared.Close()
	collect() // what earlier tests dropped
	collect()
	before := runtime.NumGoroutine()
	gone := func() { // one whose work is done is counted until it has returned
		t.Helper()
		soon(t, "no goroutine stays", func() bool { return runtime.NumGoroutine() <= before })
	}
	for i := 0; i < 5; i++ {
		_, err := s.Generate(ctx, &GenerateOptions{MaxTokens: 3, IgnoreEOS: true, Cancel: shared}, nil)
		must(t, err)
		gone()
		must(t, s.Append(prompt))
		_, err = s.Prefill(ctx, LogitsNone, nil)
		must(t, err)
		gone()
		stream, err := s.Stream(ctx, &GenerateOptions{MaxTokens: 3, IgnoreEOS: true, Cancel: shared})
		for err == nil {
			gone()
			_, err = stream.Next()
		}
		equal(t, err, io.EOF)
		gone()
	}
}

// Callbacks that the library keeps are let go with their handles, and where the call that takes them fails.
func TestKeptCallbacksAreFreed(t *testing.T) {
	r := newRig(t)
	freed := make(chan struct{}, 10)
	held := func() *[100]byte {
		p := new([100]byte)
		runtime.SetFinalizer(p, func(*[100]byte) { freed <- struct{}{} })
		return p
	}
	func() {
		log, failed, wake, refused, forked := held(), held(), held(), held(), held()
		rt, err := OpenRuntime(&RuntimeOptions{Threads: 1, Log: func(LogLevel, string) { log[0]++ }})
		must(t, err)
		rt.Close()
		_, err = OpenRuntime(&RuntimeOptions{ISA: 99, Log: func(LogLevel, string) { failed[0]++ }})
		fails(t, err, StatusInvalid)
		s, err := r.model.OpenSession(&SessionOptions{Wake: func() { wake[0]++ }})
		must(t, err)
		_, _, err = r.model.Resume(background, r.store, "nobody", &SessionOptions{Wake: func() { refused[0]++ }}, nil)
		fails(t, err, StatusNotFound)
		copy, err := s.Fork(&SessionOptions{Wake: func() { forked[0]++ }})
		must(t, err)
		s.Close()
		copy.Close()
	}()
	soon(t, "all five are freed", func() bool { collect(); return len(freed) == 5 })
}
