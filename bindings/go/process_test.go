package kvrt

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kvrt.dev/kvrt/internal/host"
)

func exit(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func init() {
	// answers MODEL STORE: answers, and saves itself all along, until it is killed.
	children["answers"] = func(arguments []string) {
		rt, err := OpenRuntime(&RuntimeOptions{Threads: 1})
		exit(err)
		m, err := rt.OpenModel(background, arguments[0], nil, nil)
		exit(err)
		store, err := rt.OpenStore(arguments[1], nil)
		exit(err)
		s, err := m.OpenSession(&SessionOptions{Store: store, AutosaveName: "ann", AutosaveTokens: 5})
		exit(err)
		exit(s.Append(prompt))
		_, err = s.Generate(background, endless, func(e Event) error {
			if e.Type == EventToken {
				fmt.Println(e.Token)
				time.Sleep(2 * time.Millisecond)
			}
			return nil
		})
		exit(err)
	}
	// locale MODEL: numbers under the locale of the environment.
	children["locale"] = func(arguments []string) {
		fmt.Println(host.SetLocale())
		rt, err := OpenRuntime(&RuntimeOptions{Threads: 1})
		exit(err)
		m, err := rt.OpenModel(background, arguments[0], nil, nil)
		exit(err)
		s, err := m.OpenSession(nil)
		exit(err)
		exit(s.Append(prompt))
		_, err = s.Generate(background, &GenerateOptions{GrammarKind: GrammarJSONSchema, Grammar: `{"enum": [0.5]}`}, nil)
		exit(err)
		text, err := s.Text(4, End, 0)
		exit(err)
		said, err := ApplyTemplate([]any{}, &TemplateOptions{Source: "{{ x }}", Variables: map[string]any{"x": 0.25}})
		exit(err)
		metrics, err := m.MetricsText("")
		exit(err)
		fmt.Println(text, said, regexp.MustCompile(`\d,\d`).FindString(metrics) == "", regexp.MustCompile(`\d\.\d`).FindString(metrics) != "")
		fmt.Println(host.SetLocale())
	}
}

func TestKilledInMidAnswer(t *testing.T) {
	r := newRig(t)
	want := r.answer(r.open(prompt...), 60)
	store := filepath.Join(r.dir, "killed")
	c := child("answers", nil, modelPath, store)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	lines := bufio.NewScanner(out)
	for i := 0; i < 25; i++ {
		check(t, lines.Scan(), "the process ended after", i)
		equal(t, lines.Text(), fmt.Sprint(want[i]))
	}
	must(t, c.Process.Kill())
	check(t, c.Wait() != nil) // killed
	st, err := r.runtime.OpenStore(store, &StoreOptions{MustExist: true})
	must(t, err)
	defer st.Close()
	s, report, err := r.model.Resume(background, st, "ann", nil, nil)
	must(t, err)
	defer s.Close()
	have := tokensOf(t, s)
	check(t, len(have) > 4+10 && report.PromptTokens == uint64(len(have)), have, report)
	equal(t, have[4:], want[:len(have)-4])
	equal(t, r.answer(s, uint32(64-len(have))), want[len(have)-4:])
	must(t, st.Verify(background, nil))
}

func TestGermanLocale(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("localedef", "-i", "de_DE", "-f", "UTF-8", dir+"/de_DE.UTF-8").CombinedOutput()
	if _, e := os.Stat(dir + "/de_DE.UTF-8/LC_NUMERIC"); e != nil {
		t.Fatal("localedef (Debian: locales): ", err, string(out))
	}
	out, err = child("locale", []string{"LC_ALL=de_DE.UTF-8", "LOCPATH=" + dir}, modelPath).CombinedOutput()
	must(t, err)
	equal(t, string(out), "0,5\n0.5 0.25 true true\n0,5\n")
}

// build makes a program of a folder in this module, or of files elsewhere that use it, as a user would.
func build(t *testing.T, dir string, arguments ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command("go", append([]string{"build", "-o", program}, arguments...)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	check(t, err == nil, string(out))
	return program
}

// A program with an SQLite of its own: with the system's shared one kvrt has the same; with one inside the program kvrt works where it has its own
// inside too (KVRT_STATIC_DEPS), and else refuses, and says whose it got.
func TestAnotherSQLite(t *testing.T) {
	for _, c := range []struct {
		tags  string
		works bool
	}{{"", true}, {"archive", os.Getenv("KVRT_STATIC_DEPS") == "1"}} {
		program := build(t, ".", "-tags", c.tags, "./internal/sqlitehost")
		out, err := exec.Command(program, modelPath, t.TempDir()+"/store").CombinedOutput()
		if c.works {
			check(t, err == nil && string(out) == "worked: 5 rows\n", err, string(out))
			continue
		}
		var exit *exec.ExitError
		check(t, errors.As(err, &exit) && exit.ExitCode() == 3, err, string(out))
		check(t, strings.Contains(string(out), "SQLite") && strings.Contains(string(out), program), string(out))
	}
}

// The README's program, as printed, in a module of its own; the second run goes on where the first ended.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	must(t, err)
	code := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(text)[1]
	check(t, strings.Count(string(code), "\n") <= 25, "more than 25 lines")
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/main.go", code, 0o600))
	must(t, os.WriteFile(dir+"/go.mod", []byte("module first\n\ngo 1.19\n"), 0o600))
	edit := regexp.MustCompile(`(?m)^go (mod edit .*)$`).FindSubmatch(text)[1] // as the README has it
	require := exec.Command("go", strings.Fields(strings.Replace(string(edit), "/path/to/clone", source, 1))...)
	require.Dir = dir
	must(t, require.Run())
	model, err := os.ReadFile(modelPath)
	must(t, err)
	must(t, os.WriteFile(dir+"/model.gguf", model, 0o600))
	program := build(t, dir, ".")
	for i := 0; i < 2; i++ {
		c := exec.Command(program)
		c.Dir = dir
		out, err := c.CombinedOutput()
		check(t, err == nil, string(out))
		reused := regexp.MustCompile(`reused (\d+) of \d+ tokens\n$`).FindSubmatch(out)
		check(t, reused != nil && (string(reused[1]) != "0") == (i == 1), string(out))
	}
}

// The sample: killed again and again, it answers each job once and whole, as one that was never killed.
func TestWorker(t *testing.T) {
	program := build(t, ".", "./examples/worker")
	run := func(dir string, kill time.Duration) bool {
		c := exec.Command(program, "-model", modelPath, "-dir", dir, "-tokens", "40")
		out, err := c.StderrPipe()
		must(t, err)
		must(t, c.Start())
		if kill > 0 {
			go func() { time.Sleep(kill); c.Process.Kill() }()
		}
		said := bufio.NewScanner(out)
		last := ""
		for said.Scan() {
			last = said.Text()
		}
		err = c.Wait()
		check(t, kill > 0 || err == nil, last)
		return err == nil
	}
	answers := func(dir string) (out []string) {
		names, err := filepath.Glob(dir + "/*")
		must(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err == nil { // not the store
				out = append(out, filepath.Base(name)+": "+string(text))
			}
		}
		return out
	}
	whole, killed := t.TempDir(), t.TempDir()
	for _, dir := range []string{whole, killed} {
		for i := 0; i < 6; i++ {
			must(t, os.WriteFile(fmt.Sprintf("%s/%d.prompt", dir, i), []byte(fmt.Sprintf("Tell me about number %d.", i)), 0o600))
		}
	}
	run(whole, 0)
	equal(t, len(answers(whole)), 12)
	kills := 0
	for after := 5 * time.Millisecond; !run(killed, after); after += after / 4 {
		kills++
	}
	t.Log(kills, "kills")
	check(t, kills > 0)
	equal(t, answers(killed), answers(whole))
	for _, answer := range answers(whole) { // also of one that was cut within a character
		check(t, utf8.ValidString(answer), answer)
	}
}

// A job that cannot be done is said, at each run, and the others are done; without a limit of tokens, in a folder whose name would be a pattern.
func TestWorkerGoesOnPastABadJob(t *testing.T) {
	program := build(t, ".", "./examples/worker")
	dir := t.TempDir() + "/a[b"
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(dir+"/1.prompt", []byte(strings.Repeat("too long ", 1000)), 0o600))
	must(t, os.WriteFile(dir+"/2.prompt", []byte("Hello"), 0o600))
	for i := 0; i < 2; i++ {
		out, err := exec.Command(program, "-model", modelPath, "-dir", dir, "-tokens", "0").CombinedOutput()
		var exit *exec.ExitError
		check(t, errors.As(err, &exit) && exit.ExitCode() == 1, err, string(out))
		check(t, regexp.MustCompile(`(?m)^1: .*context is 1024`).Match(out) && strings.HasSuffix(string(out), "1 of 2 jobs failed\n"), string(out))
		_, err = os.Stat(dir + "/1.answer")
		check(t, os.IsNotExist(err), err)
		answer, err := os.ReadFile(dir + "/2.answer")
		check(t, err == nil && len(answer) > 0 && utf8.Valid(answer), err, string(answer))
	}
}
