package kvrt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	background = context.Background()
	source     = sourceDir()
	modelPath  = filepath.Join(source, "tests", "golden", "tiny", "llama_gqa_f32.gguf")
	prompt     = []int32{5, 6, 7, 8}
)

// The tree that this package lies in.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// A test that is run again as a process of its own finds its part here.
var children = map[string]func(arguments []string){}

func TestMain(m *testing.M) {
	os.Setenv("KVRT_CACHE", "") // tests leave the user's cache alone
	if name := os.Getenv("KVRT_GO_CHILD"); name != "" {
		children[name](strings.Split(os.Getenv("KVRT_GO_ARGUMENTS"), "\n"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is this test program as another process, which runs children[name].
func child(name string, environment []string, arguments ...string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "KVRT_GO_CHILD="+name, "KVRT_GO_ARGUMENTS="+strings.Join(arguments, "\n"))
	c.Env = append(c.Env, environment...)
	return c
}

// rig has a runtime, a model and a store, which close at the test's end.
type rig struct {
	t       *testing.T
	dir     string
	runtime *Runtime
	model   *Model
	store   *Store
}

func newRig(t *testing.T) *rig { return rigWith(t, &ModelOptions{}) }

func rigWith(t *testing.T, options *ModelOptions) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	var err error
	r.runtime, err = OpenRuntime(&RuntimeOptions{Threads: 1})
	must(t, err)
	r.model, err = r.runtime.OpenModel(background, modelPath, options, nil)
	must(t, err)
	r.store, err = r.runtime.OpenStore(filepath.Join(r.dir, "store"), nil)
	must(t, err)
	t.Cleanup(func() {
		r.runtime.Close()
		r.model.Close()
		r.store.Close()
	})
	return r
}

// open gives a session with these tokens.
func (r *rig) open(tokens ...int32) *Session {
	r.t.Helper()
	s, err := r.model.OpenSession(&SessionOptions{Store: r.store})
	must(r.t, err)
	r.t.Cleanup(func() { s.Close() })
	must(r.t, s.Append(tokens))
	return s
}

// answer gives the tokens of a generation of count.
func (r *rig) answer(s *Session, count uint32) []int32 {
	r.t.Helper()
	var out []int32
	_, err := s.Generate(background, &GenerateOptions{MaxTokens: count, IgnoreEOS: true}, func(e Event) error {
		if e.Type == EventToken {
			out = append(out, e.Token)
		}
		return nil
	})
	must(r.t, err)
	return out
}

func tokensOf(t *testing.T, s *Session) []int32 {
	t.Helper()
	tokens, err := s.Tokens()
	must(t, err)
	return tokens
}

func sessions(t *testing.T, m *Model) uint64 {
	t.Helper()
	info, err := m.Info()
	must(t, err)
	return info.Sessions
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// unequal is for callbacks and other goroutines, which must not end themselves: an error where the two differ.
func unequal(got, want any) error {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("got %v, want %v", got, want)
}

// wrong is the same of an error: nil where it is one of the targets.
func wrong(err error, targets ...error) error {
	for _, target := range targets {
		if errors.Is(err, target) {
			return nil
		}
	}
	return fmt.Errorf("got %v, want one of %v", err, targets)
}

func check(t *testing.T, good bool, what ...any) {
	t.Helper()
	if !good {
		t.Fatal(what...)
	}
}

// fails wants an error of these: statuses, details, errors of a context.
func fails(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("got %v, want %v", err, target)
		}
	}
}

// soon waits until the condition holds.
func soon(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

// noLeaks wants no goroutine more at the test's end than now.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}
