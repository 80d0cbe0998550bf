// worker answers a queue of prompts in a folder, and may be killed at any time: it goes on where it was, in the middle of an answer too.
//
//	worker -model model.gguf -dir jobs
//
// jobs/NAME.prompt is a job, jobs/NAME.answer its result, jobs/store the memory of the answers that are begun. A job is done when its answer is there:
// that file appears whole or not at all. A folder has one worker. Ctrl-C saves and leaves; kill -9 loses the tokens since the last save, which come again.
// A job that fails is logged, and the others are done; the worker's status is then 1, and its next run tries that job again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"kvrt.dev/kvrt"
)

type worker struct {
	model  *kvrt.Model
	store  *kvrt.Store
	tokens uint
}

func main() {
	log.SetFlags(0)
	model := flag.String("model", "model.gguf", "the model's GGUF `file`")
	dir := flag.String("dir", "jobs", "the `folder` of *.prompt")
	tokens := flag.Uint("tokens", 256, "tokens of an answer at most; 0: until the model ends it or its context is full")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *model, *dir, *tokens); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path, dir string, tokens uint) error {
	runtime, err := kvrt.OpenRuntime(nil)
	if err != nil {
		return err
	}
	defer runtime.Close()
	model, err := runtime.OpenModel(ctx, path, nil, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	store, err := runtime.OpenStore(filepath.Join(dir, "store"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	w := worker{model, store, tokens}
	entries, err := os.ReadDir(dir) // sorted; not Glob, to which a [ in the folder's name is a pattern
	if err != nil {
		return err
	}
	jobs, failed := 0, 0
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".prompt")
		if name == entry.Name() {
			continue
		}
		jobs++
		err := w.do(ctx, filepath.Join(dir, name))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // this job's alone
			log.Printf("%s: %v", name, err)
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d jobs failed", failed, jobs)
	}
	return nil
}

// do answers one job, unless its answer is there.
func (w *worker) do(ctx context.Context, job string) error {
	name := filepath.Base(job)
	if _, err := os.Stat(job + ".answer"); err == nil {
		return w.forget(name)
	}
	session, err := w.begun(ctx, job, name)
	if err != nil {
		return err
	}
	defer session.Close() // with autosave: saves what is not saved yet
	answer, err := w.finish(ctx, session, name)
	if err != nil {
		return err
	}
	if err := writeWhole(job+".answer", answer); err != nil {
		return err
	}
	session.Close()
	return w.forget(name)
}

// begun gives the session of a job: the saved one, or a new one that has the prompt.
func (w *worker) begun(ctx context.Context, job, name string) (*kvrt.Session, error) {
	options := &kvrt.SessionOptions{AutosaveTokens: 16}
	session, resumed, err := w.model.ResumeOrOpen(ctx, w.store, name, options, nil)
	if err != nil || resumed != nil {
		return session, err
	}
	prompt, err := os.ReadFile(job + ".prompt")
	if err == nil {
		_, err = session.AppendMessage(kvrt.Message{Role: "user", Content: string(prompt)})
	}
	if err != nil {
		session.Close()
		return nil, err
	}
	return session, nil
}

// finish computes what the answer lacks, and gives all of it.
func (w *worker) finish(ctx context.Context, session *kvrt.Session, name string) (string, error) {
	have, ended, err := progress(session)
	if err != nil {
		return "", err
	}
	if have > 0 {
		log.Printf("%s: goes on after %d tokens", name, have)
	}
	if !ended && (w.tokens == 0 || have < w.tokens) {
		options := &kvrt.GenerateOptions{} // no limit
		if w.tokens > 0 {
			options.MaxTokens = uint32(w.tokens - have)
		}
		if _, err := session.Generate(ctx, options, nil); err != nil {
			return "", err
		}
	}
	_, props, err := session.Message(1)
	if err != nil {
		return "", err
	}
	if !props.Ended {
		log.Printf("%s: cut after %d tokens", name, props.End-props.Begin)
	}
	text, err := session.Text(props.Begin, props.End, 0)
	return strings.ToValidUTF8(text, "\uFFFD"), err // an answer may be cut within a character
}

// progress tells how many tokens of the answer there are, and whether the model has ended it.
func progress(session *kvrt.Session) (have uint, ended bool, err error) {
	_, props, err := session.Message(1) // message 0 is the prompt
	if errors.Is(err, kvrt.StatusNotFound) {
		return 0, false, nil
	}
	return uint(props.End - props.Begin), props.Ended, err
}

// forget removes what is no longer needed to go on.
func (w *worker) forget(name string) error {
	if err := w.store.Remove("", name); err != nil && !errors.Is(err, kvrt.StatusNotFound) {
		return err
	}
	return nil
}

// writeWhole makes a file that is whole whenever it is there. One that a kill left half is written anew.
func writeWhole(path, text string) error {
	file, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	if _, err = file.WriteString(text); err == nil {
		err = file.Sync()
	}
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
