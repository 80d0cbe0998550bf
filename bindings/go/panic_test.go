package kvrt

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

type mine struct{ int }

// panics wants the same panic out of a call.
func panics(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		equal(t, recover(), mine{7})
	}()
	f()
	t.Fatal("no panic")
}

func TestPanicInACallback(t *testing.T) {
	noLeaks(t)
	r := newRig(t)
	boom := func(Event) error { panic(mine{7}) }
	s := r.computed(many(9, 70)...)
	_, err := s.Checkpoint("ann", nil)
	must(t, err)
	panics(t, func() { s.Generate(background, endless, boom) })
	must(t, s.Append(many(8, 40)))
	panics(t, func() { s.Prefill(background, LogitsAll, boom) })
	panics(t, func() { r.runtime.OpenModel(background, modelPath, nil, boom) })
	panics(t, func() { r.store.List(background, func(StoreEntry) error { panic(mine{7}) }) })
	panics(t, func() { r.store.GC(background, boom) })
	panics(t, func() { r.store.Verify(background, boom) })
	other, err := r.runtime.OpenStore(r.dir+"/other", nil)
	must(t, err)
	other.Close()
	panics(t, func() { r.runtime.RepairStore(background, r.dir+"/other", boom) })
	fresh, err := r.runtime.OpenModel(background, modelPath, nil, nil)
	must(t, err)
	defer fresh.Close()
	panics(t, func() { fresh.Resume(background, r.store, "ann", nil, boom) })
	equal(t, sessions(t, fresh), uint64(0))

	equal(t, len(r.answer(s, 3)), 3) // the call had ended in good order
	n := 0
	func() {
		defer func() { n++; recover() }()
		s.Generate(background, endless, func(Event) error { n++; panic(nil) })
		n += 100
	}()
	equal(t, n, 2)
	equal(t, len(r.answer(s, 3)), 3)
}

func TestErrorOfACallback(t *testing.T) {
	r := newRig(t)
	s := r.open(prompt...)
	n := 0
	report, err := s.Generate(background, endless, func(e Event) error {
		if e.Type == EventToken {
			if n++; n == 3 {
				return errMine
			}
		}
		return nil
	})
	equal(t, err, errMine)
	equal(t, []any{report.Reason, report.Generated, n}, []any{ReasonCancelled, uint64(3), 3})
	equal(t, len(tokensOf(t, s)), 7)
}

func init() {
	children["log panics"] = func([]string) {
		OpenRuntime(&RuntimeOptions{LogLevel: LogDebug, Log: func(LogLevel, string) { panic("mine") }})
	}
	children["wake panics"] = func([]string) {
		rt, _ := OpenRuntime(nil)
		m, _ := rt.OpenModel(background, modelPath, nil, nil)
		s, _ := m.OpenSession(&SessionOptions{Wake: func() { panic("mine") }})
		s.Append(prompt)
		s.Generate(background, endless, nil)
	}
	children["goexit"] = func([]string) {
		rt, _ := OpenRuntime(nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			rt.OpenModel(background, modelPath, nil, func(Event) error { runtime.Goexit(); return nil })
		}()
		<-done
	}
}

// What has no call that it could come out of ends the program, as any panic that nobody recovers.
func TestPanicWithoutACall(t *testing.T) {
	for name, message := range map[string]string{"log panics": "panic: mine", "wake panics": "panic: mine", "goexit": "panic: kvrt: a callback ended its goroutine"} {
		out, err := child(name, nil).CombinedOutput()
		exit, ok := err.(*exec.ExitError)
		check(t, ok && exit.ExitCode() == 2 && strings.Contains(string(out), message), name, err, string(out))
	}
}

func TestLog(t *testing.T) {
	var lines []string
	rt, err := OpenRuntime(&RuntimeOptions{Threads: 1, LogLevel: LogDebug, Log: func(level LogLevel, text string) { lines = append(lines, level.String()+" "+text) }})
	must(t, err)
	m, err := rt.OpenModel(background, modelPath, nil, nil)
	must(t, err)
	m.Close()
	rt.Close()
	check(t, len(lines) > 0 && strings.Contains(strings.Join(lines, "\n"), "INFO "), lines)
	_, err = OpenRuntime(&RuntimeOptions{ISA: 99, Log: func(LogLevel, string) {}}) // a call that fails keeps nothing
	fails(t, err, StatusInvalid)
}
